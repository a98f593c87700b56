"""Other programs' protocols over the client contract: each stands on `runtime/client.py` and reaches nothing behind it."""
