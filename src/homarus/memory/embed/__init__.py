"""Where vectors come from: small adapters behind one protocol. None of them is needed for memory to work."""
