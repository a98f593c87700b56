"""From a model's text to what a person sees. This is the only place where text becomes visible."""
