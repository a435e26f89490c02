/* request_queue.c: a linked list under a mutex. It carries rare requests only, so a lock per batch is cheap enough. */
#include "request_queue.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

int rp_request_queue_init(rp_request_queue *queue, uint32_t capacity) {
    memset(queue, 0, sizeof *queue);
    queue->event_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (queue->event_fd < 0) {
        return RP_E_IO;
    }
    pthread_mutex_init(&queue->lock, NULL);
    queue->capacity = capacity;
    atomic_init(&queue->waiting, 0);
    atomic_init(&queue->bytes, 0);
    return RP_OK;
}

void rp_request_queue_close(rp_request_queue *queue) {
    while (queue->first != NULL) {
        rp_held_request *held = queue->first;
        queue->first = held->next;
        rp_held_request_free(held);
    }
    pthread_mutex_destroy(&queue->lock);
    close(queue->event_fd);
}

int rp_request_is_admitted(int32_t kind) {
    return kind == RP_REQUEST_COMMAND || kind == RP_REQUEST_RESPONSE || kind == RP_REQUEST_CALL || kind == RP_REQUEST_MESSAGE;
}

int rp_request_queue_admits(rp_request_queue *queue) {
    if (atomic_fetch_add_explicit(&queue->waiting, 1, memory_order_relaxed) < queue->capacity) {
        return 1;
    }
    atomic_fetch_sub_explicit(&queue->waiting, 1, memory_order_relaxed);
    return 0;
}

/* Copies slice to *cursor and moves that behind it; keeps the difference between absent and empty. */
static rp_slice copy_slice(uint8_t **cursor, rp_slice slice) {
    if (slice.data == NULL) {
        return slice;
    }
    if (slice.size > 0) {
        memcpy(*cursor, slice.data, slice.size);
    }
    rp_slice copy = {*cursor, slice.size};
    *cursor += slice.size;
    return copy;
}

uint64_t rp_request_copy_size(const rp_command *command) {
    uint64_t size = (uint64_t)command->remark.size + command->body.size;
    for (uint32_t index = 0; index < command->field_count; index++) {
        size += (uint64_t)command->fields[index].key.size + command->fields[index].value.size;
    }
    return size;
}

static void copy_command(rp_command *target, const rp_command *source, uint8_t *bytes) {
    target->code = source->code;
    target->version = source->version;
    target->opaque = source->opaque;
    target->flag = source->flag;
    target->language = source->language;
    target->serialize_type = source->serialize_type;
    target->field_count = source->field_count;
    for (uint32_t index = 0; index < source->field_count; index++) {
        target->fields[index].key = copy_slice(&bytes, source->fields[index].key);
        target->fields[index].value = copy_slice(&bytes, source->fields[index].value);
    }
    target->remark = copy_slice(&bytes, source->remark);
    target->body = copy_slice(&bytes, source->body);
}

rp_held_request *rp_request_hold(rp_request_queue *queue, enum rp_request_kind kind, uint64_t connection_id, const rp_address *remote,
                                 const rp_command *command) {
    rp_command event;
    if (command == NULL) {
        rp_command_clear(&event, 0, RP_SERIALIZE_JSON);
        command = &event;
    }
    size_t head_size = offsetof(rp_held_request, request.command.fields) + command->field_count * sizeof(rp_field);
    size_t size = head_size + rp_request_copy_size(command);
    rp_held_request *held = malloc(size);
    if (held == NULL) {
        return NULL;
    }
    held->inbox = (rp_inbox_item){RP_INBOX_RESUBMIT, connection_id};
    held->queue = queue;
    held->next = NULL;
    held->bytes = size;
    held->request.kind = (int32_t)kind;
    held->request.connection_id = connection_id;
    held->request.deadline_ns = INT64_MAX;
    rp_address_text(remote, held->request.remote_address);
    copy_command(&held->request.command, command, (uint8_t *)held + head_size);
    atomic_fetch_add_explicit(&queue->bytes, size, memory_order_relaxed);
    return held;
}

/* A thread that sees a reservation returned also sees what was held for it, so two reactors together do not exceed the bound. */
int rp_request_queue_reserve(rp_request_queue *queue, uint64_t bytes, uint64_t bytes_max) {
    uint64_t reserved = atomic_fetch_add_explicit(&queue->bytes_reserved, bytes, memory_order_acq_rel);
    if (reserved + bytes + atomic_load_explicit(&queue->bytes, memory_order_relaxed) <= bytes_max)
        return 1;
    rp_request_queue_release(queue, bytes);
    return 0;
}

void rp_request_queue_release(rp_request_queue *queue, uint64_t bytes) {
    atomic_fetch_sub_explicit(&queue->bytes_reserved, bytes, memory_order_acq_rel);
}

void rp_request_batch_add(rp_request_batch *batch, rp_held_request *held) {
    held->next = NULL;
    if (batch->last != NULL) {
        batch->last->next = held;
    } else {
        batch->first = held;
    }
    batch->last = held;
}

void rp_request_queue_put(rp_request_queue *queue, rp_request_batch *batch) {
    if (batch->first == NULL) {
        return;
    }
    pthread_mutex_lock(&queue->lock);
    if (queue->last != NULL) {
        queue->last->next = batch->first;
    } else {
        queue->first = batch->first;
    }
    queue->last = batch->last;
    if (!queue->is_signalled) {
        /* Under the lock, so that flag and eventfd always agree. */
        const uint64_t one = 1;
        queue->is_signalled = 1;
        while (write(queue->event_fd, &one, sizeof one) < 0 && errno == EINTR) {
        }
    }
    pthread_mutex_unlock(&queue->lock);
    batch->first = batch->last = NULL;
}

uint32_t rp_request_queue_take(rp_request_queue *queue, rp_request **requests, uint32_t requests_max) {
    uint32_t taken = 0;
    uint32_t commands = 0;
    pthread_mutex_lock(&queue->lock);
    for (; taken < requests_max && queue->first != NULL; taken++) {
        rp_held_request *held = queue->first;
        queue->first = held->next;
        requests[taken] = &held->request;
        commands += rp_request_is_admitted(held->request.kind);
    }
    if (queue->first == NULL) {
        queue->last = NULL;
    }
    if (taken == 0 && queue->is_signalled) {
        uint64_t count;
        queue->is_signalled = 0;
        while (read(queue->event_fd, &count, sizeof count) < 0 && errno == EINTR) {
        }
    }
    pthread_mutex_unlock(&queue->lock);
    atomic_fetch_sub_explicit(&queue->waiting, commands, memory_order_relaxed);
    return taken;
}

rp_held_request *rp_held_request_of(rp_request *request) {
    return (rp_held_request *)(void *)((uint8_t *)request - offsetof(rp_held_request, request));
}

void rp_held_request_free(rp_held_request *held) {
    atomic_fetch_sub_explicit(&held->queue->bytes, held->bytes, memory_order_relaxed);
    free(held);
}
