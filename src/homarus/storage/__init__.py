"""The only code that writes durable files. Everything above asks here, and gets the old or the new content, never neither."""
