"""What people say on its way in: commands and directives are answered here, everything else goes to a lane."""
