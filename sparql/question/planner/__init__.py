"""A question is read with the words of the graph and the grammar of asking; what is left unread is not guessed."""
