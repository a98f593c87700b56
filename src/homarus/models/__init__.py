"""Talk to language models: names, catalogue, providers, failover, credentials. Knows no session and runs no tool."""
