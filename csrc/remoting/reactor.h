/* reactor.h: the structs that the files of the server share: the server, its reactors, their connections. Internal to csrc/remoting.
 * C only.
 *
 * A turn of a reactor:
 *
 *   wait (epoll, spin) ─ inbox ─ connections held back ─ socket events: read → frames → handler ─ timers ─ on_wake, on_deadline
 *     ─ on_turn_end ─ flush (small answers first, of large ones some) ─ reap closed connections ─ forget the turn's memory
 *
 * Threads  a reactor's fields belong to whoever holds its turn_lock, except where noted. The reactor's thread holds it, except while it
 *          sleeps in epoll or is away on something that blocks (rp_reactor_leave). While it is away a stand-in thread is called: at once
 *          or, as long as a single connection asks, only if the thread stays away. The stand-in turns the reactor from then on. Other
 *          threads reach a reactor through `inbox` and `wake_pending`, or answer in its place while it sleeps or is away
 *          (rp_reactor_serve). Connections live in blocks that are not moved or freed before the server is, so that rp_server_send may
 *          read the atomics of any of them.
 * Bounds   a turn reads at most RP_READ_ARENA_BYTES, and the rest of large frames; see server.h for the others.
 */
#ifndef RP_REMOTING_REACTOR_H
#define RP_REMOTING_REACTOR_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "../base/ring.h"
#include "../base/thread.h"
#include "header_form.h"
#include "input_pool.h"
#include "output.h"
#include "passage.h"
#include "protocol.h"
#include "request_queue.h"
#include "timer_wheel.h"
#include "tls.h"

#define RP_REACTORS_MAX 64
#define RP_CONNECTION_BLOCK 64 /* connections allocated together */
#define RP_LONE_REQUESTS 8     /* after this many requests of one connection, one a turn, no other connection is expected */

#define RP_READ_ARENA_BYTES (1024u * 1024)
#define RP_READ_BYTES_MAX (128u * 1024) /* of one connection in one turn */
#define RP_HANDSHAKES_PER_TURN 4        /* steps of handshakes: one is a signature, 0.1 to 1 ms, during which everybody waits */

/* Why a connection is not read; 0: it is read. */
enum rp_pause {
    RP_PAUSE_OUTPUT = 1, /* it does not take its answers */
    RP_PAUSE_MEMORY = 2, /* no memory for the rest of a large frame */
    RP_PAUSE_STOP = 4    /* the server is stopping */
};

/* What is known of the connection's protocol. */
enum rp_opening {
    RP_OPENING_FIRST = 0,  /* nothing: its first byte has not arrived */
    RP_OPENING_PROXIED,    /* a balancer has sent its header */
    RP_OPENING_HANDSHAKE,  /* TLS, during its handshake */
    RP_OPENING_DONE,       /* frames follow, or another protocol */
    RP_OPENING_DIALED      /* one of our own connections, not connected yet */
};

struct rp_connection {
    _Atomic uint64_t id;           /* 0 while free; released by the reactor, acquired by senders of other threads */
    _Atomic uint64_t output_bytes; /* unsent and queued bytes, for senders; updated by each flush and each piece from the inbox */
    _Atomic uint64_t inbox_bytes;  /* in the inbox for this connection; released after output_bytes */
    rp_reactor *reactor;           /* fixed after the block is made */
    uint32_t slot;                 /* fixed after the block is made */
    int fd;
    uint32_t events;               /* epoll's interest */
    uint8_t pauses;                /* rp_pause bits */
    bool is_closing;
    bool is_dirty;                 /* in the reactor's dirty list, or in its large queue */
    bool is_held_back;             /* in the reactor's held_back list: has frames that can be handled without reading */
    bool is_blocked;               /* waits for EPOLLOUT */
    bool has_more;                 /* its protocol has more to send after its output */
    bool is_dialed;                /* opened by us: dialed.c */
    uint8_t opening;               /* rp_opening */
    bool is_undecided;             /* it may be HTTP/2, which is forwarded: passage.h */
    bool is_spared;                /* past its limit, with an event that waits for its turn: until the next tick */
    int dial_fault;                /* an errno: why it could not be opened */
    const rp_protocol *protocol;   /* NULL: RocketMQ's frames */
    void *spoken;                  /* the protocol's own state; NULL: it has not begun */
    rp_address peer;               /* the socket's other end */
    rp_address address;            /* the client's: that of peer, or as reported by a balancer there */
    rp_output output;
    rp_tls *tls;                   /* NULL: no TLS */
    uint8_t *input;                /* bytes of an incomplete frame, or of frames held back; NULL: none */
    uint32_t input_size;
    uint32_t input_capacity;
    uint32_t large_frame_size;     /* not 0: input collects one large frame of this size */
    uint32_t wanted_bytes;         /* while paused for memory */
    uint64_t queued_bytes;         /* held by its protocol behind its output */
    int64_t look_ns;               /* when its protocol's look is due; INT64_MAX: never */
    int64_t last_active_ns;
    int64_t progress_ns;           /* while blocked or short of memory: when it last progressed */
    rp_timer_node timer;
    rp_connection *next_dirty, *next_closing, *next_held_back;
    const char *close_reason;      /* static storage */
    rp_held_request *closed_event; /* allocated when it opens, so that the event cannot fail for want of memory; NULL: dialed */
};

/* Written by the reactor, read by rp_server_read_stats. Statistics only, so relaxed. */
typedef struct rp_reactor_stats {
    _Atomic uint64_t closed_idle, closed_stalled, frames_in, frames_out, bytes_in, bytes_out, frames_bad, punted, rejected_busy, refused,
        oneway_dropped, turns, buffer_bytes;
} rp_reactor_stats;

/* A large frame's buffer that is kept until the turn's end. */
typedef struct rp_turn_buffer {
    struct rp_turn_buffer *next;
    uint8_t *bytes;
    uint32_t capacity;
} rp_turn_buffer;

/* A thread that may turn a reactor. */
typedef struct rp_turner {
    rp_reactor *reactor; /* fixed after open */
    rp_thread *thread;   /* owner of the server; for the stand-in: under turn_lock until the first thread has ended */
} rp_turner;

struct rp_reactor {
    rp_server *server; /* fixed after open */
    uint16_t index;    /* fixed after open */
    /* Held by the thread that turns it, except while that sleeps in epoll or is away; before every other lock. */
    pthread_mutex_t turn_lock;
    int stand_in_fd;               /* a timer for the thread that does not turn; fixed once the stand-in is needed, -1 before */
    rp_turner turners[2];          /* the reactor's thread, and its stand-in, which is started when first needed */
    rp_turner *turner;             /* the one that turns it */
    int64_t leave_for;             /* the argument of on_leave */
    const rp_connection *asker;    /* connection of the last request; only compared */
    uint64_t asked_in_turn;        /* turn of that request, in stats.turns */
    uint32_t lone_requests;        /* up to RP_LONE_REQUESTS: how many recent requests came one a turn, all from one connection */
    uint32_t single_requests;      /* likewise: how many recent requests were their connection's only one of the turn */
    bool is_leaving;               /* the turner leaves when this turn is over */
    bool is_away;                  /* the other one has not returned yet */
    int epoll_fd;      /* fixed after open */
    rp_ring *inbox;    /* any thread puts */
    rp_inbox_item wake_item;         /* static content, put into the inbox by rp_reactor_wake */
    _Atomic uint32_t wake_pending;   /* set by any thread (acq_rel: on_wake sees what was written before), cleared by the reactor */
    _Atomic uint32_t nudge_pending;  /* the same for the server's own reasons: stop, memory that was freed */
    _Atomic uint32_t connection_count; /* including those on their way here; read to distribute new ones; statistics, so relaxed */
    rp_connection *_Atomic *blocks;  /* directory, fixed after open; entries are released once and stay */
    uint32_t blocks_max;             /* fixed after open */
    uint32_t slots_made;             /* connections in blocks so far */
    uint32_t *free_slots;            /* stack */
    uint32_t free_slot_count;
    uint32_t next_generation;        /* makes the ids of successive connections in a slot differ */
    rp_arena *arena;
    uint8_t *read_arena;             /* RP_READ_ARENA_BYTES */
    uint32_t read_cursor;            /* bytes of it used in this turn */
    /* RP_READ_BYTES_MAX: input of TLS connections, before it is decrypted; allocated with the first of them. */
    uint8_t *sealed;
    uint32_t handshakes;             /* handshake steps of this turn */
    rp_turn_buffer *turn_buffers;    /* kept until the turn's end */
    rp_held_request *turn_requests;  /* the same: resubmitted requests */
    rp_request_batch batch;          /* requests of this turn for Python */
    rp_command command;              /* the command being handled */
    rp_header_forms *forms;          /* of the headers decoded so far */
    rp_output_pool pool;
    rp_input_pool spares;            /* not counted in the server's memory bound */
    uint64_t held_bytes_before;      /* buffer bytes at the end of the last turn */
    uint64_t input_bytes;            /* capacities of all input buffers, including those kept for the turn */
    rp_connection *dirty, *closing, *held_back;
    rp_connection *large, **large_end; /* queue, linked like dirty: connections with much to send, of which a turn handles some */
    rp_connection **starved;         /* paused for memory, oldest first; allocated with the slots, so adding never fails */
    uint32_t starved_count;
    rp_connection *overdrawn;        /* the one connection whose frame may exceed the memory bound, so that there is always progress */
    rp_timer_wheel wheel;
    int64_t now_ns;
    int64_t deadline_ns;             /* the handler's */
    int64_t listener_resume_ns;      /* reactor 0: when to accept again after descriptors ran out; INT64_MAX: it accepts */
    int64_t drain_until_ns;          /* INT64_MAX until the server stops */
    int64_t spin_until_ns;           /* 0: sleep at once */
    uint32_t spin_credit;            /* 0..SPIN_CREDIT_MAX: grows when spinning pays */
    uint32_t spin_pause;             /* sleeps without spinning since the credit ran out */
    bool is_done;
    rp_reactor_stats stats;
};

enum rp_server_state { RP_SERVER_OPEN = 0, RP_SERVER_RUNNING, RP_SERVER_STOPPED };

struct epoll_event;

struct rp_server {
    rp_server_options options; /* fixed after open; bind_address and thread_name point into the copies below */
    char bind_address[64];     /* fixed after open */
    char thread_name[11];      /* fixed after open */
    rp_handler handler;        /* fixed after open */
    const rp_gate *gate;       /* fixed after start; NULL: none */
    const rp_protocol *protocol; /* of accepted connections; fixed after start; NULL: frames */
    rp_passage passage;          /* if has_passage; both fixed after start */
    bool has_passage;
    uint16_t port;             /* fixed after open */
    int listener_fd;           /* owned by reactor 0 while running, otherwise by the owner of the server */
    int reserve_fd;            /* likewise: given up to accept and close when descriptors run out */
    rp_reactor *reactors[RP_REACTORS_MAX]; /* fixed after open */
    rp_request_queue requests;
    _Atomic uint32_t connections;     /* open ones and those on their way to a reactor; for a bound, so relaxed */
    _Atomic uint64_t accepted, refused; /* statistics, so relaxed */
    _Atomic uint32_t starved;         /* connections paused for memory; read after memory was freed; relaxed */
    _Atomic int64_t stop_at_ns;       /* INT64_MAX until rp_server_stop; when draining ends */
    int64_t refusal_logged_ns;        /* reactor 0 */
    uint32_t spinners_max;            /* fixed after open */
    _Atomic uint32_t spinners;        /* reactors that are polling, or checking whether they may; for a bound, so relaxed */
    pthread_mutex_t tls_lock;         /* a leaf: guards tls_context */
    rp_tls_context *tls_context;      /* for new handshakes; NULL: none is loaded */
    pthread_mutex_t lock;             /* start, stop and close; held while joining; no lock is taken under it */
    enum rp_server_state state;       /* guarded by lock */
};

/* reactor.c */
int rp_reactor_create(rp_server *server, uint16_t index, rp_reactor **reactor);
void rp_reactor_destroy(rp_reactor *reactor); /* after its thread has ended, or never ran */
int rp_reactor_start_turner(rp_turner *turner); /* its thread; as rp_thread_start */
void rp_reactor_nudge(rp_reactor *reactor); /* any thread: makes it turn */

/* reactor_wait.c */
int64_t rp_reactor_next_deadline(const rp_reactor *reactor); /* monotonic ns */
/* Waits until a turn has something to do, and does not hold the lock while it sleeps. Returns the number of events, as epoll_wait. */
int rp_reactor_wait(rp_reactor *reactor, struct epoll_event *events, int events_max);
/* To be called after a turn, with the stats.turns and stats.frames_out from before it: decides whether polling for the next request may
 * pay. */
void rp_reactor_expect_asker(rp_reactor *reactor, uint64_t turn, uint64_t answers_before);

/* dialed.c */
/* The connect of one of our own connections has ended. False: it failed, and the connection is being closed. */
bool rp_connection_finish_dial(rp_connection *connection);

/* connection.c */
/* Makes a connection from a socket that is already counted (in the server's connections and the reactor's connection_count), without its
 * opened event. NULL if that failed: the socket is closed, and both counts are reduced again. */
rp_connection *rp_connection_enter(rp_reactor *reactor, int fd, const rp_address *address);
/* As rp_connection_enter, for an accepted socket, with its opened event. */
void rp_connection_adopt(rp_reactor *reactor, int fd, const rp_address *address);
void rp_connection_close(rp_connection *connection, const char *reason); /* goes at the turn's end; reason is of static storage */
void rp_connection_reap(rp_connection *connection);                      /* at the turn's end */
rp_connection *rp_connection_find(rp_reactor *reactor, uint64_t id);     /* any thread; only atomics may be read by others */
/* Any thread: admits size more bytes into the inbox for the connection; 0 if its bound is reached. They are settled when they arrive. */
int rp_connection_admit_inbox(rp_connection *connection, uint64_t size);
void rp_connection_settle_inbox(rp_reactor *reactor, uint64_t id, uint64_t size);
void rp_connection_pause(rp_connection *connection, enum rp_pause cause);
/* True if more_bytes may be allocated for the connection's input: there is memory, or it is the reactor's overdrawn connection (which it
 * becomes if there is none). Otherwise it is paused until there is memory. */
bool rp_connection_may_grow(rp_connection *connection, uint32_t more_bytes);
void rp_reactor_resume_starved(rp_reactor *reactor);
void rp_connection_mark_dirty(rp_connection *connection);
void rp_connection_show_unsent(rp_connection *connection); /* publishes the unsent bytes to senders of other threads */
/* Writes at most limit bytes, and marks the connection dirty if there is more that its socket may take. Returns how many were written. */
uint64_t rp_connection_flush(rp_connection *connection, uint64_t limit);
void rp_connection_on_timer(rp_connection *connection);
void rp_connection_look_again(rp_connection *connection); /* its time limits may have become nearer */

/* connection_input.c */
void rp_connection_read(rp_connection *connection);
void rp_connection_handle_held_back(rp_connection *connection);
void rp_connection_drop_input(rp_connection *connection);
void rp_connection_account_input(rp_reactor *reactor, uint32_t taken, uint32_t given_back);
/* Handles size bytes at the read arena's cursor: the rest of an earlier frame, and behind it what TLS has decrypted. */
void rp_connection_take_opened(rp_connection *connection, uint32_t size);

/* connection_protocol.c: connections that speak a protocol of their own */
void rp_connection_speak(rp_connection *connection, const uint8_t *data, uint32_t size); /* takes what was read */
void rp_connection_fill(rp_connection *connection);                                      /* before it is flushed */
bool rp_connection_may_read(const rp_connection *connection);                            /* true of frames */
bool rp_connection_is_busy(const rp_connection *connection);                             /* false of frames */
int64_t rp_connection_next_look(const rp_connection *connection);                        /* when on_timer is to look */
void rp_connection_look(rp_connection *connection);
void rp_connection_drain(rp_connection *connection);
void rp_connection_end_spoken(rp_connection *connection);
void rp_connection_take_posted(rp_reactor *reactor, rp_posted *item);

/* connection_opening.c */
/* For a connection that is still undecided: whether it speaks frames, is not known yet (0), or was forwarded to the passage. As
 * rp_passage_scan. */
int rp_connection_decide(rp_connection *connection, const uint8_t *data, uint32_t size);
/* Looks at the first bytes of a connection and consumes those that belong to no frame. False: more bytes are needed to decide. */
bool rp_connection_begin(rp_connection *connection, const uint8_t **data, uint32_t *size);
/* Decrypts what TLS has received; the result is put into the read arena, size_before bytes behind its cursor. */
void rp_connection_open_sealed(rp_connection *connection, const uint8_t *bytes, uint32_t size, uint32_t size_before);
void rp_connection_end_tls(rp_connection *connection); /* with the connection, before its socket is closed */

/* dispatch.c */
void rp_dispatch_frame(rp_connection *connection, const uint8_t *frame, uint32_t size);
void rp_dispatch_resubmitted(rp_reactor *reactor, rp_held_request *held);
int rp_dispatch_opened(rp_connection *connection); /* RP_OK, RP_E_NO_MEMORY: then there will be no closed event either */
void rp_dispatch_closed(rp_connection *connection);

/* listener.c */
int rp_listener_open(rp_server *server, rp_error *error);
void rp_listener_close(rp_server *server);
int rp_listener_arm(rp_reactor *reactor); /* RP_OK, RP_E_NETWORK */
void rp_listener_accept(rp_reactor *reactor);

/* server.c */
bool rp_server_memory_is_over(const rp_server *server, uint64_t more_bytes); /* any thread */
rp_tls_context *rp_server_share_tls(rp_server *server); /* any thread; to be released; NULL: none is loaded */
void rp_server_feed_starved(rp_server *server); /* any thread, after memory was freed */

#endif
