"""The home on the network: nothing lives here until the server moves in."""
