/* call.h: one call of a connection: what its client has sent so far, and its answer. Internal to csrc/grpc, C only.
 *
 *   head ─ add_header … ─ begin ─┬─ refused: a status at once
 *                                ├─ take … half_close: the one message → handler, or Python
 *                                └─ take: each message → Python, as long as it takes them ─ half_close
 *
 *   answer: append … end ─ read, by nghttp2 as the other side takes it ─ trailers
 *
 * Threads  its session's.
 * Bounds   a spare call keeps HEAD_BYTES of metadata (call.c) and RP_GRPC_SPARE_BYTES of input; a call's buffer is at most twice what
 *          has arrived of its message.
 */
#ifndef RP_GRPC_CALL_H
#define RP_GRPC_CALL_H

#include <stdbool.h>

#include "../base/nghttp2.h"
#include "../remoting/protocol.h"
#include "grpc.h"
#include "metadata.h"

typedef struct rp_grpc_session rp_grpc_session;

enum rp_grpc_act { RP_GRPC_ACT_SEND = 0, RP_GRPC_ACT_END, RP_GRPC_ACT_TOOK, RP_GRPC_ACT_ASK_ROOM };

/* What another thread sends to a call. A message stays in it until it is sent. */
typedef struct rp_grpc_piece {
    rp_posted posted;
    struct rp_grpc_piece *next;
    int32_t act; /* rp_grpc_act */
    int32_t call;
    int32_t status; /* for END; for SEND -1 unless OK follows */
    uint32_t size;  /* of bytes: a message with its prefix */
    uint32_t read;
    uint8_t bytes[];
} rp_grpc_piece;

#define RP_GRPC_SPARE_BYTES 8192u /* a larger buffer is not kept with a spare call */
#define RP_GRPC_PREFIX 5u /* prefix of a message: compressed (1), size (4) */

typedef struct rp_grpc_entry { /* an entry of metadata: a name, then its value, in `head` */
    uint16_t at, name_size, value_size;
} rp_grpc_entry;

/* Who answers the call, and is told when nobody waits for the answer any more. */
enum rp_grpc_owner { RP_GRPC_NOBODY = 0, RP_GRPC_HANDLER, RP_GRPC_PYTHON };

struct rp_grpc_call {
    rp_grpc_session *session;
    rp_grpc_call *previous, *next; /* in the session's list; next also among the spare ones */
    void *kept;                    /* owned by the handler */
    void *watched;                 /* the handler's, for on_delivered; NULL: not wanted, or already called */
    int64_t began_ns, deadline_ns;
    int64_t progress_ns;           /* while something is queued: when some of it was last sent */
    rp_grpc_call *older, *younger; /* while is_half, like the three below */
    int64_t half_since_ns, half_heard_ns;
    uint64_t half_bytes;
    int32_t stream;
    int32_t method;                /* -1: it has none */
    uint8_t owner;                 /* rp_grpc_owner */
    bool has_begun;                /* its head is complete: headers that follow are trailers */
    bool is_post, has_content_type;
    bool is_gzip, is_encoded;      /* grpc-encoding: gzip, and any but identity */
    bool is_half_closed;           /* the client sends no more messages */
    bool has_said_end;             /* Python has been told so */
    bool has_head;                 /* the answer's head is written */
    bool is_deferred;              /* nghttp2 waits for more of the answer */
    bool is_ended;                 /* the end of the answer is known: nothing may be added */
    bool is_reset;                 /* or there is no answer, and the stream is reset */
    bool wants_room;               /* Python waits until nothing is queued */
    bool is_half;                  /* its message is incomplete: it is in the list (half_messages.h) */
    uint16_t untaken;              /* messages that Python has not finished with */
    uint16_t entry_count;
    uint32_t header_bytes;         /* size of all headers, as HTTP/2 counts it */
    uint32_t head_size, head_capacity;
    uint32_t input_size, input_capacity, input_at; /* input_at: everything before it has been reported */
    uint32_t expected;             /* size of its one message, with the prefix; 0 while unknown */
    uint32_t unreturned;           /* bytes not yet returned to the client's window */
    uint32_t window;               /* of the stream */
    const char *http_status;       /* for an answer that consists of a status alone; NULL: 200 */
    uint8_t *head;
    uint8_t *input;
    rp_grpc_piece *first, *last;   /* pieces of the answer, not read yet */
    rp_grpc_piece *reserved;       /* reserved by the handler, not committed yet */
    int32_t status;
    uint8_t *text;                 /* text of the status, percent-encoded; NULL: none */
    uint32_t text_size;
    rp_grpc_entry entries[RP_GRPC_METADATA_MAX];
};

/* call.c */
rp_grpc_call *rp_grpc_call_create(rp_grpc_session *session, int32_t stream); /* NULL: no memory */
void rp_grpc_call_free(rp_grpc_call *call);
void rp_grpc_call_release(rp_grpc_call *call); /* as free, but keeps it for reuse */
/* RP_OK; RP_E_NO_MEMORY: its stream must be reset. */
int rp_grpc_call_add_header(rp_grpc_call *call, rp_slice name, rp_slice value);
void rp_grpc_call_drop_input(rp_grpc_call *call);
/* Report to Python; flag: rp_grpc_event bits. A call that cannot be reported is refused. */
void rp_grpc_call_tell(rp_grpc_call *call, enum rp_request_kind kind, int32_t flag, rp_slice message);
void rp_grpc_call_tell_cancelled(rp_grpc_call *call);
void rp_grpc_call_ask_room(rp_grpc_call *call);
void rp_grpc_call_tell_room(rp_grpc_call *call); /* if Python waits for room, and there is some */

/* call_input.c */
void rp_grpc_call_begin(rp_grpc_call *call); /* its head is complete */
/* Takes all of data, and returns those bytes to the stream's window that need not wait for Python. */
void rp_grpc_call_take(rp_grpc_call *call, const uint8_t *data, uint32_t size);
void rp_grpc_call_half_close(rp_grpc_call *call);
void rp_grpc_call_taken(rp_grpc_call *call); /* Python has finished with a message */

/* call_output.c */
void rp_grpc_call_append(rp_grpc_call *call, rp_grpc_piece *piece); /* takes over the piece */
void rp_grpc_call_finish(rp_grpc_call *call, int32_t status, rp_slice text);
/* Answers a call that is refused here; http_status is "200", or the status that HTTP itself defines for it. */
void rp_grpc_call_refuse(rp_grpc_call *call, int32_t status, const char *text, const char *http_status);
void rp_grpc_call_reset(rp_grpc_call *call, uint32_t error_code); /* without an answer, or in the middle of it */
void rp_grpc_call_drop_answer(rp_grpc_call *call);
rp_http2_read rp_grpc_call_read;
void rp_grpc_write_prefix(uint8_t target[RP_GRPC_PREFIX], uint32_t size);

#endif
