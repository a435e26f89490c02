/* ha_connection_inl.h: the fields of a slave's connection, for its files. C only. Private to csrc/ha. */
#ifndef RP_HA_HA_CONNECTION_INL_H
#define RP_HA_HA_CONNECTION_INL_H

#include <stdatomic.h>

#include "ha_connection.h"
#include "switch_wire.h"

#define RP_HA_ACK_SIZE 8
#define RP_HA_READ_ACKS_MAX 512

/* Additional fields of a connection behind a controller. */
typedef struct rp_switched {
    const atomic_int_fast64_t *confirmed; /* fixed: points to the master's */
    /* guarded by the master's transfer lock */
    uint8_t *handshake; /* allocated when the slave has sent its hello */
    int from_last_file;
    int64_t sent_end, sent_ms; /* the log's end, and the monotonic time, when the last frame began */
    /* Written under the transfer lock, read by any thread: relaxed, each independent. */
    atomic_int_fast64_t broker_id, caught_up_ms;
    atomic_int is_learner;
} rp_switched;

struct rp_ha_connection {
    /* fixed after create */
    const rp_ha_master_options *options;
    int fd;
    rp_address address;
    char address_text[RP_ADDRESS_TEXT_MAX];
    int64_t connected_ms;
    /* guarded by the master's transfer lock */
    uint8_t input[RP_HA_ACK_SIZE * RP_HA_READ_ACKS_MAX];
    uint32_t input_size;
    uint8_t header[RP_SWITCH_TRANSFER_SIZE];
    const uint8_t *head;  /* what precedes the body of the frame under way: header, or switched.handshake */
    uint32_t header_size, header_left; /* of head; header_left: not sent yet */
    uint32_t body_left;   /* body bytes not sent yet */
    rp_log_range range;   /* pinned while body_left > 0 */
    uint32_t frame_bytes; /* upper bound of the next frame */
    int64_t frame_begun_ns;
    int socket_is_full;
    int64_t last_read_ns, last_write_ns;
    int64_t flow_tokens, flow_filled_ns;
    int64_t window_start_ns;
    uint64_t window_bytes;
    uint64_t new_frames, new_heartbeats, new_bytes;
    /* Written under the transfer lock, read by any thread: relaxed, each independent. */
    atomic_int_fast64_t request_offset, next_offset;
    atomic_int_fast64_t acked_offset;
    atomic_uint_fast64_t bytes_sent, bytes_per_second;
    rp_switched switched; /* used behind a controller */
};

static inline int64_t rp_ha_connection_next_offset(const rp_ha_connection *connection) {
    return atomic_load_explicit(&connection->next_offset, memory_order_relaxed);
}

/* Decides where the transfer starts, by the first offset that the slave reported. RP_OK, RP_E_RANGE. */
int rp_ha_connection_start(rp_ha_connection *connection, int64_t requested, rp_error *error);
/* Handles an ack: 1 if the acked offset moved, 0 if not; RP_E_RANGE. */
int rp_ha_connection_take_ack(rp_ha_connection *connection, int64_t offset, rp_error *error);

/* ha_connection_switch.c */
/* Handles the hello and the acks in the input. Returns as rp_ha_connection_receive; also RP_E_PROTOCOL. */
int rp_ha_connection_take_words(rp_ha_connection *connection, int64_t heard_ns, rp_error *error);
/* Writes the header of the next frame, which ends where its epoch does. Returns how many of the `size` bytes at offset are in it;
 * RP_E_NOT_FOUND: there is no epoch. */
int64_t rp_ha_connection_put_frame(rp_ha_connection *connection, int64_t offset, int64_t size, rp_error *error);

#endif
