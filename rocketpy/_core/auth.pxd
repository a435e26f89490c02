# auth.pxd: csrc/auth declared for Cython.
from libc.stdint cimport int32_t, uint8_t, uint16_t, uint32_t, uint64_t

from rocketpy._core.base cimport NativeObject, rp_error, rp_log, rp_slice
from rocketpy._core.remoting cimport Gate, rp_gate

cdef extern from "auth/auth_table.h" nogil:
    enum: RP_RESOURCE_ANY
    enum: RP_RESOURCE_CLUSTER
    enum: RP_RESOURCE_NAMESPACE
    enum: RP_RESOURCE_TOPIC
    enum: RP_RESOURCE_GROUP
    enum: RP_PATTERN_ANY
    enum: RP_PATTERN_LITERAL
    enum: RP_PATTERN_PREFIXED
    enum: RP_ACTION_ALL
    enum: RP_ACTION_ANY
    enum: RP_ACTION_PUB
    enum: RP_ACTION_SUB
    enum: RP_ACTION_CREATE
    enum: RP_ACTION_UPDATE
    enum: RP_ACTION_DELETE
    enum: RP_ACTION_GET
    enum: RP_ACTION_LIST
    enum: RP_VERDICT_ALLOW
    enum: RP_VERDICT_DENY
    enum: RP_VERDICT_NO_MATCH
    enum: RP_IDENTITY_PROVEN
    enum: RP_IDENTITY_UNKNOWN
    enum: RP_IDENTITY_DISABLED
    enum: RP_IDENTITY_WRONG_SIGNATURE
    ctypedef struct rp_acl_entry:
        uint8_t is_default, is_deny, resource_type, pattern
        uint32_t actions
        rp_slice name
        const rp_slice *sources
        uint32_t source_count
    ctypedef struct rp_auth_options:
        int32_t authenticate, authorize
        rp_slice cluster_name
        const int32_t *authentication_whitelist
        uint32_t authentication_whitelist_count
        const int32_t *authorization_whitelist
        uint32_t authorization_whitelist_count
    ctypedef struct rp_auth_stats:
        pass
    ctypedef struct rp_auth_table:
        pass
    int rp_auth_table_open(rp_log *log, rp_auth_table **table)
    void rp_auth_table_close(rp_auth_table *table)
    int rp_auth_table_put_user(rp_auth_table *table, rp_slice name, rp_slice secret, int is_super, int is_enabled)
    int rp_auth_table_delete_user(rp_auth_table *table, rp_slice name)
    int rp_auth_table_put_acl(rp_auth_table *table, rp_slice user, const rp_acl_entry *entries, uint32_t entry_count, rp_error *error)
    int rp_auth_table_delete_acl(rp_auth_table *table, rp_slice user)
    int rp_auth_table_set_options(rp_auth_table *table, const rp_auth_options *options)
    int rp_auth_table_publish(rp_auth_table *table)
    int rp_auth_table_identify(const rp_auth_table *table, rp_slice user, rp_slice content, rp_slice signature)
    int rp_auth_table_judge(
        const rp_auth_table *table, rp_slice user, uint8_t resource_type, rp_slice name, uint32_t actions, const char *source)
    int rp_auth_table_gate(rp_auth_table *table, uint16_t reactors, const rp_gate **gate)
    void rp_auth_table_read_stats(rp_auth_table *table, rp_auth_stats *stats)
    enum: RP_SIGNATURE_TEXT_SIZE
    void rp_auth_sign(rp_slice secret, rp_slice content, char *signature)


cdef class AuthTable(Gate):
    cdef rp_auth_table *native
    cdef NativeObject log

    cdef bint delete_named(self, rp_slice name, bint of_acl) except -1
