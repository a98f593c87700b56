"""From `openclaw.json`, in any spelling of any era, to one typed configuration. A bad value never stops the program."""
