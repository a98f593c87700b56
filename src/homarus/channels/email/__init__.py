"""E-mail: one mailbox that is watched over IMAP, and answers that go out over SMTP in the thread they belong to."""
