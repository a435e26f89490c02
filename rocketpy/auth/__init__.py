"""Who may do what: users, their rights, and the credentials with which this broker calls others. The tables are kept here; requests are
checked against them natively."""
