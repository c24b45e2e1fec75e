"""What can be said to each verb, and what it calls: a file for each group of them."""
