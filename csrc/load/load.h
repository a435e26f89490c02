/* load.h: the load generator: one measured run of sends, pulls or both against one broker of any RocketMQ-compatible make.
 *
 * It has its own code for the remoting protocol (nothing of remoting/, store/ or broker/ is linked in), so that what it accepts is an
 * independent check. A request is a prebuilt frame into which opaque, time stamp, key and body are patched.
 *
 * Closed loop  connections x in_flight requests are always under way; latency runs from the write to the response.
 * Open loop    `rate` messages a second are due at fixed times; latency runs from the due time, so a stalled broker is
 *              charged for every message that should have been sent meanwhile (no coordinated omission).
 * Bodies       carry run, producer, queue, sequence, due time and a CRC over the whole body; the rest is a pattern chosen by the
 *              sequence, so a reader can detect missing, duplicated, corrupted and reordered messages (csrc/load/payload.h).
 * Errors       a response code other than SUCCESS, a time-out, a broken or refused connection and a malformed response are each
 *              counted under their code (response codes as they are, ours as negative RP_E_ numbers); no request is sent twice.
 *              A run whose sends are all refused for its first second ends as if by rp_load_stop.
 *
 * Threads  open, start, wait, result and close from one owner; stop, progress and percentile from any thread.
 * Owns     `threads` workers, each with an epoll instance and its share of connections; producers and queues never change workers.
 * Bounds   queues, connections, in_flight, threads and sizes by the _MAX below; buffers <= 512 KB for a sending connection (or one
 *          frame), <= one frame for a pulling one; the ledger <= RP_LOAD_LEDGER_MAX messages of a queue, further ones are counted as
 *          unverified.
 */
#ifndef RP_LOAD_LOAD_H
#define RP_LOAD_LOAD_H

#include <stdint.h>

#include "../base/error.h"

#define RP_LOAD_QUEUES_MAX 4096
#define RP_LOAD_CONNECTIONS_MAX 16384
#define RP_LOAD_IN_FLIGHT_MAX 4096
#define RP_LOAD_THREADS_MAX 64
#define RP_LOAD_BATCH_MAX 4096
#define RP_LOAD_MESSAGE_SIZE_MIN 40
#define RP_LOAD_MESSAGE_SIZE_MAX 8388608
#define RP_LOAD_LEDGER_MAX 67108864
#define RP_LOAD_ERROR_CODES_MAX 32
#define RP_LOAD_REMARK_MAX 160
#define RP_LOAD_OFFENDER_MAX 320

enum rp_load_mode { RP_LOAD_SEND = 1, RP_LOAD_PULL = 2, RP_LOAD_BOTH = 3 };
enum rp_load_start { RP_LOAD_FROM_MIN = 0, RP_LOAD_FROM_MAX = 1, RP_LOAD_FROM_GIVEN = 2 }; /* where a pull begins */
enum rp_load_latency_kind { RP_LOAD_PUBLISH = 0, RP_LOAD_PUBLISH_DELAY = 1, RP_LOAD_END_TO_END = 2, RP_LOAD_FETCH = 3 };
#define RP_LOAD_LATENCY_KINDS 4

/* Leave fields 0 for their defaults; strings are copied by open. */
typedef struct rp_load_options {
    const char *address;        /* "host:port", "[v6]:port" */
    const char *topic;          /* must exist, unless the broker creates it at the first send */
    const char *producer_group; /* NULL: "rocketpy_bench_producer" */
    const char *consumer_group; /* NULL: "rocketpy_bench_consumer" */
    const char *tags;           /* the TAGS property of what is sent; NULL: none */
    const char *ledger_path;    /* pull: check against the acknowledgements that an earlier run saved by rp_load_save_ledger; NULL: no */
    const int64_t *start_offsets; /* queue_count offsets for RP_LOAD_FROM_GIVEN, else NULL */
    int32_t mode;               /* of rp_load_mode */
    int32_t serialize_type;     /* 0 JSON, 1 ROCKETMQ; responses are read in either */
    int32_t send_code;          /* 310 (also if 0), 10, or 320 with batch_size messages a request */
    int32_t pull_start;         /* of rp_load_start; RP_LOAD_BOTH always begins where the queues end */
    uint32_t queue_count;       /* queues 0..queue_count-1, which each producer uses in turn; 0: 4 */
    uint32_t connections;       /* sending ones; 0: 1. In RP_LOAD_PULL: pulling ones */
    uint32_t pull_connections;  /* RP_LOAD_BOTH: pulling ones; 0: 1. Queues are assigned to them in turn */
    uint32_t in_flight;         /* requests under way on a sending connection; 0: 1. A pulling one has one for each queue */
    uint32_t batch_size;        /* messages in a 320 request; 0: 1 */
    uint32_t pull_batch;        /* maxMsgNums; 0: 32 */
    uint32_t threads;           /* 0: 1 */
    uint32_t message_size;      /* body bytes; 0: 1024 */
    uint64_t count;             /* messages to send, or to receive in RP_LOAD_PULL, after the warm-up; 0: no limit */
    uint64_t duration_ms;       /* length of the measured part; 0: no limit. Sending needs a count or a duration */
    uint64_t warm_up_ms;        /* how long the same load runs before it is measured */
    double rate;                /* messages a second over all connections; 0: closed loop. Sends: open loop. RP_LOAD_PULL: at most */
    uint32_t connect_timeout_ms;   /* 0: 3000 */
    uint32_t request_timeout_ms;   /* 0: 3000; pulls get suspend_ms more */
    uint32_t reconnect_timeout_ms; /* how long to retry a broken connection (every break is an error); 0: not at all */
    uint32_t drain_timeout_ms;     /* RP_LOAD_BOTH: how long readers may continue after the last send; 0: 30000 */
    uint32_t suspend_ms;           /* long-poll time of pulls at the end of a queue; 0: 15000 */
    uint32_t spin_us;              /* how long to poll without sleeping after the last event; 0: always sleep */
    uint64_t run_id;               /* marks the bodies; 0: chosen from the clock, and RP_LOAD_PULL accepts every run */
    int32_t repeat;                /* RP_LOAD_PULL: read a queue again from its start when it ends, until count or duration is reached */
    int32_t skip_verify;           /* 1: count records and check only their queue offsets, no CRC, no body */
    int32_t check_order;        /* 1: sequences of one producer must rise within a queue (in_flight 1, or a broker that keeps order) */
    int32_t no_unique_key;         /* 1: leave out the properties UNIQ_KEY and WAIT, which every client sets */
    int32_t keep_ledger;           /* 1: remember queue and offset of every acknowledged message (RP_LOAD_BOTH always does) */
} rp_load_options;

/* Times in nanoseconds. */
typedef struct rp_load_latency {
    uint64_t count;
    uint64_t min_ns;
    uint64_t p50_ns;
    uint64_t p90_ns;
    uint64_t p99_ns;
    uint64_t p999_ns;
    uint64_t p9999_ns;
    uint64_t max_ns;
    double mean_ns;
} rp_load_latency;

typedef struct rp_load_error_count {
    int32_t code;
    uint64_t count;                  /* requests */
    char remark[RP_LOAD_REMARK_MAX]; /* of the first one */
} rp_load_error_count;

/* All counts are messages unless said otherwise, and cover the whole run including its warm-up. */
typedef struct rp_load_progress {
    uint64_t sent;           /* written to a socket */
    uint64_t acknowledged;   /* answered SUCCESS */
    uint64_t errors;         /* failed requests */
    uint64_t bytes_sent;     /* bodies of acknowledged messages */
    uint64_t received;       /* decoded from pull responses */
    uint64_t bytes_received; /* their bodies */
    uint64_t failures;       /* missing, duplicated, corrupted and out-of-order messages so far */
    uint64_t elapsed_ns;     /* since start */
    int32_t measuring;       /* 0 during the warm-up */
    int32_t running;         /* workers that have not finished */
} rp_load_progress;

typedef struct rp_load_result {
    int32_t status;            /* RP_OK, or why the run ended early (RP_E_NETWORK, RP_E_TIMEOUT; RP_E_CLOSED: stopped) */
    rp_load_progress totals;
    uint64_t measured_ns;      /* length of the measured part: to its end, or to the last acknowledgement */
    uint64_t measured_receive_ns; /* likewise, to the last message received */
    uint64_t measured_sent;    /* acknowledged in the measured part */
    uint64_t measured_received;
    uint64_t measured_bytes_sent;
    uint64_t measured_bytes_received;
    uint64_t measured_errors;
    uint64_t cpu_ns;           /* CPU time of the generator's threads, user and system, whole run */
    uint64_t pull_responses;   /* with messages */
    uint64_t pull_empty;       /* without */
    uint64_t disconnects;      /* connections lost or refused */
    uint64_t late_responses;   /* arrived after their request had timed out */
    uint64_t pushed_requests;  /* requests from the broker, ignored */
    uint64_t other_encoding; /* responses in another header encoding than the request's: RocketMQ does that */
    uint64_t missing;          /* acknowledged, or implied by the queue's offsets, but not delivered */
    uint64_t duplicated;       /* delivered or acknowledged at an offset already taken */
    uint64_t corrupted;        /* record, CRC, body or place differs from what was sent */
    uint64_t out_of_order;     /* with check_order */
    uint64_t unacknowledged;   /* delivered, though the sender got an error: legal */
    uint64_t unverified;       /* foreign bodies, or past the ledger's bound */
    char first_offender[RP_LOAD_OFFENDER_MAX]; /* describes the first failure; empty: none */
    uint32_t error_code_count;
    rp_load_error_count error_codes[RP_LOAD_ERROR_CODES_MAX];
    rp_load_latency latency[RP_LOAD_LATENCY_KINDS]; /* of the measured part, by rp_load_latency_kind */
    uint64_t run_id;
} rp_load_result;

typedef struct rp_load_queue {
    uint64_t acknowledged;
    uint64_t received;
    int64_t start_offset;      /* where reading, or the ledger, begins */
    int64_t next_offset;       /* the reader's */
} rp_load_queue;

typedef struct rp_load rp_load;

/* Checks the options, resolves the address and, if offsets are needed, asks the broker for them (blocks up to connect_timeout_ms).
 * RP_OK; RP_E_INVALID with the option's name; RP_E_TOO_LARGE; RP_E_NO_MEMORY; RP_E_NETWORK; RP_E_PROTOCOL; for the ledger file RP_E_IO
 * or RP_E_CORRUPT. */
int rp_load_open(const rp_load_options *options, rp_load **load, rp_error *error);

/* Connects and starts the workers. May be called once. */
int rp_load_start(rp_load *load, rp_error *error);

/* RP_OK: every worker has finished; RP_E_TIMEOUT: not within timeout_ms. */
int rp_load_wait(rp_load *load, uint32_t timeout_ms);

/* Ends the run early; call wait afterwards. Any thread, any number of times. */
void rp_load_stop(rp_load *load);

void rp_load_read_progress(const rp_load *load, rp_load_progress *progress);

/* RP_OK; RP_E_BUSY: workers are running. */
int rp_load_read_result(rp_load *load, rp_load_result *result);
int rp_load_read_queue(const rp_load *load, uint32_t queue, rp_load_queue *result); /* RP_E_NOT_FOUND, RP_E_BUSY */

/* Returns any percentile of one rp_load_latency_kind, for curves; 0: nothing was recorded, or the kind is unknown. */
uint64_t rp_load_percentile(const rp_load *load, int kind, double percent);

/* Saves what was acknowledged, for a later pull with ledger_path. After the run; needs keep_ledger. */
int rp_load_save_ledger(const rp_load *load, const char *path, rp_error *error);

/* Stops, waits and frees. NULL is allowed. */
void rp_load_close(rp_load *load);

#endif
