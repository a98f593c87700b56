"""Chat platforms: who may talk to the agent there, and how its words get out. One folder for each."""
