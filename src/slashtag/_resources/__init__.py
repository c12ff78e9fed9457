"""Links, tags and statistics: the public methods of a session, and what they share."""
