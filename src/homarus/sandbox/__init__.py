"""Where commands run. A command leaves this package only inside the spec that was resolved for its turn."""
