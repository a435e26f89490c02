/* floor.h: the upper bound of what the machine can do: bare loops that do a broker's unavoidable work and nothing else.
 *
 * The broker's figures are stated as shares of these, measured in the same run by the same generator.
 *
 *  server    one thread, one epoll loop: receives frames, copies each once with CRC into a file, and answers 160 bytes with the
 *            request's opaque. Understands both encodings just enough to find the opaque. Of three kinds:
 *    REUSED    the file is mapped, all its pages are present, and writing wraps around at its end
 *    GROWING   the file is mapped and grows, like a log: its pages are filled with zeros first, ahead of time, after the answers
 *    SYNCED    the frames of one turn are written to a growing file, and synced, before they are answered; zeros are written ahead after
 *              the answers, so that a sync allocates no blocks
 *  sync      one thread: pwrite of `size` bytes, fdatasync, again.
 *  replicated  `size` bytes to a master and on to a slave, each copying them with CRC into a mapped file; ack and answer back.
 *  sendfile  a file from the page cache through a loopback socket into a discarding reader, `chunk` bytes a call.
 *
 * Threads  start and stop from one owner; the other loops run in the caller, sendfile with one helper thread, replicated with two.
 * Bounds   server: RP_FLOOR_CONNECTIONS_MAX connections, 16 MB frames.
 */
#ifndef RP_LOAD_FLOOR_H
#define RP_LOAD_FLOOR_H

#include <stdint.h>

#include "../base/error.h"

#define RP_FLOOR_CONNECTIONS_MAX 4096

typedef struct rp_floor rp_floor;

typedef enum rp_floor_kind { RP_FLOOR_REUSED, RP_FLOOR_GROWING, RP_FLOOR_SYNCED } rp_floor_kind;

/* Listens on 127.0.0.1 (port 0: a free one) and starts the thread. path: created or overwritten; after file_size bytes (0: 1 GB for
 * REUSED, else 32 GB) it is written from its start again. spin_us: how long to poll without sleeping after the last event. */
int rp_floor_start(const char *path, rp_floor_kind kind, uint64_t file_size, uint16_t port, uint32_t spin_us, rp_floor **server,
                   rp_error *error);
uint16_t rp_floor_port(const rp_floor *server);
uint64_t rp_floor_frames(const rp_floor *server); /* answered so far; any thread */
void rp_floor_stop(rp_floor *server);             /* NULL is allowed; the file is kept */

/* The rate of a bare loop. */
typedef struct rp_floor_rate {
    uint64_t rounds;
    uint64_t bytes;
    uint64_t elapsed_ns;
    uint64_t p50_ns; /* of one round */
    uint64_t p99_ns;
    uint64_t p999_ns;
} rp_floor_rate;

/* Repeats pwrite and fdatasync of `size` bytes for duration_ms. path: created, preallocated, removed. */
int rp_floor_sync(const char *path, uint32_t size, uint32_t duration_ms, rp_floor_rate *rate, rp_error *error);

/* Replicates one message after the other for duration_ms, each with two round trips on the loopback and two appends. path: created with
 * 64 MB, removed. size: at most 1 MB. */
int rp_floor_replicated(const char *path, uint32_t size, uint32_t duration_ms, rp_floor_rate *rate, rp_error *error);

/* Sends path, an existing file, from start to end again and again for duration_ms (0: once). */
int rp_floor_sendfile(const char *path, uint32_t chunk, uint32_t duration_ms, rp_floor_rate *rate, rp_error *error);

#endif
