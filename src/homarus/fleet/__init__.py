"""The same homes on many machines, with Postgres between them. Nothing here is imported without a `homarus fleet` command."""
