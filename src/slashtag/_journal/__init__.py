"""File of finished responses, which makes a session a resumable job."""
