"""The controller: which replica of a broker set is its master, agreed among controllers. Controller is in service.py."""
