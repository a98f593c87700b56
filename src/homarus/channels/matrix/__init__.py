"""Matrix: rooms and direct chats on any homeserver, through matrix-nio; encryption where its extra is installed."""
