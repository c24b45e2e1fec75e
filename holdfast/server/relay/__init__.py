"""What a replica tells another of the chats that it runs, so that they can be read anywhere."""
