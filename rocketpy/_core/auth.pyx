# auth.pyx: users, their rights and the gate in front of servers (csrc/auth).
#
# The draft belongs to Python alone and takes no lock, but copying it (publish) and sorting an entry list take time: both release the GIL.

import array

from cpython cimport array
from libc.stdlib cimport free, malloc

from rocketpy._core.base cimport RP_E_NOT_FOUND, check, log_of, read_fields, rp_field_row, slice_of_bytes, slice_of_text
from rocketpy._core.errors import InvalidArgument, NoMemory
from rocketpy._core.results import AclEntry

cdef extern from *:
    """
    #include "fields_inl.h"
    #include "auth/auth_table.h"
    #define ROW(member) RP_FIELD_ROW(rp_auth_stats, member)
    static const rp_field_row auth_stats_rows[] = {
        ROW(authenticated), ROW(authorized), ROW(unauthenticated), ROW(unauthorized), ROW(users), ROW(acls), ROW(version),
        RP_FIELD_END};
    #undef ROW
    """
    const rp_field_row *auth_stats_rows

RESOURCE_ANY = RP_RESOURCE_ANY
RESOURCE_CLUSTER = RP_RESOURCE_CLUSTER
RESOURCE_NAMESPACE = RP_RESOURCE_NAMESPACE
RESOURCE_TOPIC = RP_RESOURCE_TOPIC
RESOURCE_GROUP = RP_RESOURCE_GROUP
PATTERN_ANY = RP_PATTERN_ANY
PATTERN_LITERAL = RP_PATTERN_LITERAL
PATTERN_PREFIXED = RP_PATTERN_PREFIXED
ACTION_ALL = RP_ACTION_ALL
ACTION_ANY = RP_ACTION_ANY
ACTION_PUB = RP_ACTION_PUB
ACTION_SUB = RP_ACTION_SUB
ACTION_CREATE = RP_ACTION_CREATE
ACTION_UPDATE = RP_ACTION_UPDATE
ACTION_DELETE = RP_ACTION_DELETE
ACTION_GET = RP_ACTION_GET
ACTION_LIST = RP_ACTION_LIST
VERDICT_ALLOW = RP_VERDICT_ALLOW
VERDICT_DENY = RP_VERDICT_DENY
VERDICT_NO_MATCH = RP_VERDICT_NO_MATCH
IDENTITY_PROVEN = RP_IDENTITY_PROVEN
IDENTITY_UNKNOWN = RP_IDENTITY_UNKNOWN
IDENTITY_DISABLED = RP_IDENTITY_DISABLED
IDENTITY_WRONG_SIGNATURE = RP_IDENTITY_WRONG_SIGNATURE


def sign(bytes secret not None, bytes content not None):
    cdef char signature[RP_SIGNATURE_TEXT_SIZE]
    rp_auth_sign(slice_of_bytes(secret), slice_of_bytes(content), signature)
    return signature[:RP_SIGNATURE_TEXT_SIZE].decode("ascii")


cdef rp_slice *fill_entry(rp_acl_entry *native, object entry, rp_slice *sources) except NULL:
    """Fills in one entry for C; its texts point into the tuple, which must outlive it. Returns the end of its sources."""
    native.is_default = bool(entry.is_default)
    native.is_deny = bool(entry.is_deny)
    native.resource_type = <uint8_t>entry.resource_type
    native.pattern = <uint8_t>entry.pattern
    native.actions = <uint32_t>entry.actions
    native.name = slice_of_text(<str?>entry.name)
    native.sources = sources
    native.source_count = <uint32_t>len(<tuple?>entry.sources)
    for source in entry.sources:
        sources[0] = slice_of_text(<str?>source)
        sources += 1
    return sources


cdef class AuthTable(Gate):
    def __init__(self, *, log=None):
        if self.native != NULL:
            raise InvalidArgument("an AuthTable is opened once")
        check(rp_auth_table_open(log_of(log), &self.native), NULL)
        self.is_closed = False
        self.log = log
        if self.log is not None:
            self.log.borrowers += 1

    def close(self):
        self.refuse_while_borrowed()
        if not self.begin_close():
            return
        rp_auth_table_close(self.native)
        self.native = NULL
        if self.log is not None:
            self.log.borrowers -= 1
            self.log = None

    cdef const rp_gate *open_gate(self, uint16_t reactors) except NULL:
        cdef const rp_gate *gate = NULL
        self.enter()
        try:
            check(rp_auth_table_gate(self.native, reactors, &gate), NULL)
        finally:
            self.leave()
        return gate

    def put_user(self, str name not None, bytes secret not None, *, bint is_super=False, bint is_enabled=True):
        cdef rp_slice name_slice = slice_of_text(name)
        self.enter()
        try:
            check(rp_auth_table_put_user(self.native, name_slice, slice_of_bytes(secret), is_super, is_enabled), NULL)
        finally:
            self.leave()

    def delete_user(self, str name not None):
        return self.delete_named(slice_of_text(name), False)

    def delete_acl(self, str user not None):
        return self.delete_named(slice_of_text(user), True)

    cdef bint delete_named(self, rp_slice name, bint of_acl) except -1:
        """Deletes the user or the acl of that name. False: there was none."""
        cdef int status
        self.enter()
        if of_acl:
            status = rp_auth_table_delete_acl(self.native, name)
        else:
            status = rp_auth_table_delete_user(self.native, name)
        self.leave()
        if status == RP_E_NOT_FOUND:
            return False
        check(status, NULL)
        return True

    def put_acl(self, str user not None, entries not None):
        cdef list kept = [AclEntry(*entry) for entry in entries]
        cdef rp_slice name = slice_of_text(user)
        cdef uint32_t count = <uint32_t>len(kept)
        cdef rp_acl_entry *natives = <rp_acl_entry *>malloc((count + 1) * sizeof(rp_acl_entry))
        cdef rp_slice *sources = <rp_slice *>malloc((sum([len(entry.sources) for entry in kept]) + 1) * sizeof(rp_slice))
        cdef rp_slice *at = sources
        cdef rp_error error
        cdef int status
        error.status = 0
        try:
            if natives == NULL or sources == NULL:
                raise NoMemory("no memory for the entries of an acl")
            for i, entry in enumerate(kept):
                at = fill_entry(&natives[<uint32_t>i], entry, at)
            self.enter()
            with nogil:
                status = rp_auth_table_put_acl(self.native, name, natives, count, &error)
            self.leave()
            check(status, &error)
        finally:
            free(natives)
            free(sources)

    def set_options(
        self,
        *,
        bint authenticate,
        bint authorize,
        str cluster_name not None,
        authentication_whitelist=(),
        authorization_whitelist=(),
    ):
        cdef array.array authentication = array.array("i", authentication_whitelist)
        cdef array.array authorization = array.array("i", authorization_whitelist)
        cdef rp_auth_options options
        options.authenticate = authenticate
        options.authorize = authorize
        options.cluster_name = slice_of_text(cluster_name)
        options.authentication_whitelist = <const int32_t *>authentication.data.as_ints
        options.authentication_whitelist_count = <uint32_t>len(authentication)
        options.authorization_whitelist = <const int32_t *>authorization.data.as_ints
        options.authorization_whitelist_count = <uint32_t>len(authorization)
        self.enter()
        try:
            check(rp_auth_table_set_options(self.native, &options), NULL)
        finally:
            self.leave()

    def publish(self):
        cdef int status
        self.enter()
        with nogil:
            status = rp_auth_table_publish(self.native)
        self.leave()
        check(status, NULL)

    def identify(self, str user not None, bytes content not None, str signature not None):
        cdef int identity
        self.enter()
        try:
            identity = rp_auth_table_identify(self.native, slice_of_text(user), slice_of_bytes(content), slice_of_text(signature))
        finally:
            self.leave()
        return identity

    def judge(self, str user not None, uint8_t resource_type, str name not None, uint32_t actions, str source not None):
        cdef bytes source_text = source.encode()
        cdef int verdict
        self.enter()
        try:
            verdict = rp_auth_table_judge(self.native, slice_of_text(user), resource_type, slice_of_text(name), actions, source_text)
        finally:
            self.leave()
        return verdict

    def stats(self):
        cdef rp_auth_stats stats
        self.enter()
        rp_auth_table_read_stats(self.native, &stats)
        self.leave()
        return read_fields(auth_stats_rows, &stats)
