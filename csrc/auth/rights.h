/* rights.h: what one user may do: the entries of the user's acl, in the order in which they decide. Internal to csrc/auth.
 * RocketMQ: Acl, Policy, PolicyEntry, AclAuthorizationHandler (5.5.0 auth/authorization/), IPAddressUtils.
 *
 *   CUSTOM policy                                              DEFAULT policy, if none of those matches
 *   ├ by type: LITERAL by name │ PREFIXED, longest first │ ANY   the same
 *   └ for any type
 *
 * LITERAL entries are found by bisection; the others of the type are checked one by one.
 * A source is compared as an address: "::1" is "0:0:0:0:0:0:0:1", and an IPv4 client is never inside an IPv6 network.
 *
 * Threads  immutable once made, except for the references, which are counted atomically.
 */
#ifndef RP_AUTH_RIGHTS_H
#define RP_AUTH_RIGHTS_H

#include "../base/address.h"
#include "auth_table.h"

typedef struct rp_rights rp_rights;

/* Makes the rights, with one reference. RP_OK; RP_E_INVALID, RP_E_TOO_LARGE with the entry's number as error's offset; RP_E_NO_MEMORY. */
int rp_rights_make(const rp_acl_entry *entries, uint32_t count, rp_rights **rights, rp_error *error);
rp_rights *rp_rights_hold(rp_rights *rights); /* NULL stays NULL */
void rp_rights_release(rp_rights *rights);

/* Judges a resource; at least one of the actions has to match. name.data NULL: a resource without a name, which only ANY patterns match.
 * NULL rights match nothing. */
enum rp_verdict rp_rights_judge(const rp_rights *rights, uint8_t resource_type, rp_slice name, uint32_t actions, const rp_address *source);

#endif
