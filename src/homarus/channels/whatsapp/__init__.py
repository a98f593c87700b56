"""WhatsApp: a linked device in a process of its own, or the Cloud API of a business number."""
