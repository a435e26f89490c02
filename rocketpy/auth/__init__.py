"""Who may do what: users, their rights, the credentials this broker itself shows. Checked natively, decided here."""
