"""XMPP: people and group chats on any Jabber server, through slixmpp."""
