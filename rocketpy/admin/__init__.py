"""What mqadmin does, without a JVM: a client of nouns and one table of commands (docs/design-admin.md)."""
