/* held_handles.h: the messages in work at push consumers whose invisible time the proxy renews, each with its current handle.
 * RocketMQ: ReceiptHandleGroup (5.3.3 proxy/common/).
 *
 *   received: held ── due: Python renews it, the handle changes ── acknowledged: taken, by one caller alone
 *
 * rocketpy/proxy/renewals.py decides when to renew. Here is what must be atomic, because acknowledgements come on other threads. While a
 * renewal is under way nobody can take the message; calls that want to are left to Python, which waits for the renewal. Python hears of
 * a message that was received natively only when it has been here for a while, since most are acknowledged before that.
 *
 * Threads  any; one lock, a leaf, held for a look-up and copies.
 * Owns     copies of all texts. A handle that was taken belongs to the taker.
 * Bounds   RP_HELD_HANDLES_MAX.
 */
#ifndef RP_PROXY_HELD_HANDLES_H
#define RP_PROXY_HELD_HANDLES_H

#include <stdint.h>

#include "../base/slice.h"

#define RP_HELD_HANDLES_MAX 200000u

typedef struct rp_held_handles rp_held_handles;
typedef struct rp_held_handle rp_held_handle;

/* Identifies a held message. */
typedef struct rp_held_key {
    rp_slice client_id;
    rp_slice group;
    rp_slice first; /* the handle that its client knows */
} rp_held_key;

enum rp_held_state {
    RP_HELD_NOT = 0,     /* it was never held, or was taken */
    RP_HELD = 1,
    RP_HELD_RENEWED = 2  /* a renewal is under way */
};

rp_held_handles *rp_held_handles_create(void); /* NULL: out of memory */
void rp_held_handles_destroy(rp_held_handles *handles);

/* What Python needs to know of a message that was received natively. */
typedef struct rp_held_message {
    rp_held_key key;
    rp_slice topic, message_id;
    int64_t since_ms;
    int32_t attempts; /* how often it was delivered before */
} rp_held_message;

/* RP_OK, also if it is held already; RP_E_BUSY at the bound; RP_E_NO_MEMORY. */
int rp_held_handles_hold(rp_held_handles *handles, const rp_held_key *key);
/* The same for a message that Python has not heard of. */
int rp_held_handles_hold_received(rp_held_handles *handles, const rp_held_message *message);
/* Returns the oldest message that Python has not heard of, if it came before before_ms; from now on Python counts as having heard of it.
 * A copy, to be freed by free(); NULL: there is none, or no memory. */
rp_held_message *rp_held_handles_tell(rp_held_handles *handles, int64_t before_ms);
int rp_held_handles_state(rp_held_handles *handles, const rp_held_key *key); /* of rp_held_state */
/* Begins a renewal. 1; 0: it is not held, or is being renewed already. */
int rp_held_handles_begin_renewal(rp_held_handles *handles, const rp_held_key *key);
/* Ends a renewal; `today` is the new handle, size 0: the old one stays. RP_OK; RP_E_NOT_FOUND; RP_E_NO_MEMORY: the old one stays. */
int rp_held_handles_end_renewal(rp_held_handles *handles, const rp_held_key *key, rp_slice today);
/* RP_HELD: it is taken out of the table, and *taken must be freed or given back; RP_HELD_NOT; RP_HELD_RENEWED: it stays. */
int rp_held_handles_take(rp_held_handles *handles, const rp_held_key *key, rp_held_handle **taken);
void rp_held_handles_give_back(rp_held_handles *handles, rp_held_handle *taken);
/* Forgets it, whatever its state. 1: it was there. */
int rp_held_handles_forget(rp_held_handles *handles, const rp_held_key *key);

rp_slice rp_held_handle_today(const rp_held_handle *taken);
void rp_held_handle_free(rp_held_handle *taken); /* NULL is allowed */

#endif
