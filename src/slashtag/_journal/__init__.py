"""The file of finished answers that makes a session a resumable job."""
