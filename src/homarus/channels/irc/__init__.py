"""IRC: channels and private messages over one TCP or TLS connection, spoken by a client of our own."""
