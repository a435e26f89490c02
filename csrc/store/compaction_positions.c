/* compaction_positions.c: see compaction_positions.h. */
#include "compaction_positions.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../base/file_whole.h"
#include "store_path.h"

#define FILE_NAME "position-checkpoint"
#define MEMBER "\"queueOffsetMap\""
#define FILE_SIZE_MAX (64 << 20)
#define NAME_MAX_SIZE 300 /* a topic of 255 bytes and a number */

typedef struct position_row {
    char *name;
    int64_t offset;
} position_row;

struct rp_compaction_positions {
    const rp_file_ops *ops;
    char path[RP_PATH_MAX];
    position_row *rows;
    uint32_t count, room;
};

static position_row *find(const rp_compaction_positions *positions, const char *name) {
    for (uint32_t i = 0; i < positions->count; i++) {
        if (strcmp(positions->rows[i].name, name) == 0)
            return &positions->rows[i];
    }
    return NULL;
}

static void name_of(char *name, rp_slice topic, int32_t queue_id) {
    snprintf(name, NAME_MAX_SIZE, "%.*s_%d", (int)topic.size, (const char *)topic.data, queue_id);
}

static int put(rp_compaction_positions *positions, const char *name, int64_t offset, rp_error *error) {
    position_row *row = find(positions, name);
    if (row != NULL) {
        row->offset = offset;
        return RP_OK;
    }
    if (positions->count == positions->room) {
        uint32_t room = positions->room == 0 ? 16 : positions->room * 2;
        position_row *larger = realloc(positions->rows, room * sizeof *larger);
        if (larger == NULL)
            return rp_error_set(error, RP_E_NO_MEMORY, ENOMEM, NULL, -1, "no memory for the positions of compacted queues");
        positions->rows = larger;
        positions->room = room;
    }
    char *kept = strdup(name);
    if (kept == NULL)
        return rp_error_set(error, RP_E_NO_MEMORY, ENOMEM, NULL, -1, "no memory for the positions of compacted queues");
    positions->rows[positions->count++] = (position_row){kept, offset};
    return RP_OK;
}

int64_t rp_compaction_positions_get(const rp_compaction_positions *positions, rp_slice topic, int32_t queue_id) {
    char name[NAME_MAX_SIZE];
    name_of(name, topic, queue_id);
    const position_row *row = find(positions, name);
    return row != NULL ? row->offset : -1;
}

int rp_compaction_positions_set(rp_compaction_positions *positions, rp_slice topic, int32_t queue_id, int64_t offset, rp_error *error) {
    char name[NAME_MAX_SIZE];
    name_of(name, topic, queue_id);
    position_row *row = find(positions, name);
    if (offset >= 0)
        return put(positions, name, offset, error);
    if (row != NULL) {
        free(row->name);
        *row = positions->rows[--positions->count];
    }
    return RP_OK;
}

/* Topic names need no JSON escapes, so a name with one is not ours. Returns 0 if there are no more members, or the text is malformed. */
static int read_member(char **at, char *name, int64_t *offset) {
    char *begin = strchr(*at, '"'), *end = begin != NULL ? strchr(begin + 1, '"') : NULL, *after;
    if (end == NULL || end - begin - 1 >= NAME_MAX_SIZE || memchr(begin, '}', (size_t)(end - begin)) != NULL)
        return 0;
    snprintf(name, NAME_MAX_SIZE, "%.*s", (int)(end - begin - 1), begin + 1);
    end++;
    end += strspn(end, " \t\r\n");
    if (*end++ != ':')
        return 0;
    *offset = strtoll(end, &after, 10);
    if (after == end)
        return 0;
    after += strspn(after, " \t\r\n");
    if (*after != ',' && *after != '}')
        return 0;
    *at = *after == ',' ? after + 1 : after;
    return 1;
}

/* Returns how many rows were read; -1: the text is malformed. */
static int64_t read_text(rp_compaction_positions *positions, char *text, rp_error *error) {
    char name[NAME_MAX_SIZE], *at = strstr(text, MEMBER);
    int64_t offset, count = 0;
    at = at != NULL ? strchr(at + sizeof MEMBER - 1, '{') : NULL;
    if (at == NULL)
        return -1;
    for (at++; read_member(&at, name, &offset); count++) {
        if (offset >= 0 && put(positions, name, offset, error) != RP_OK)
            return RP_E_NO_MEMORY;
    }
    at += strspn(at, " \t\r\n");
    return *at == '}' ? count : -1;
}

/* RP_OK; RP_E_CORRUPT: as much as could be read was loaded; RP_E_IO, RP_E_NO_MEMORY. */
static int load(rp_compaction_positions *positions, rp_error *error) {
    int64_t size = rp_path_file_size(positions->path), got = -1;
    if (size <= 0)
        return RP_OK;
    char *text = size <= FILE_SIZE_MAX ? malloc((size_t)size + 1) : NULL;
    if (text == NULL)
        return rp_error_set(error, RP_E_NO_MEMORY, ENOMEM, positions->path, -1, "no memory to read %lld bytes", (long long)size);
    int rc = rp_file_read_whole(positions->ops, positions->path, text, (size_t)size, &got, "the positions of compacted queues", error);
    if (rc == RP_OK && got >= 0) {
        text[got < size ? got : size] = 0;
        if (read_text(positions, text, error) == -1)
            rc = rp_error_set(error, RP_E_CORRUPT, 0, positions->path, -1, "it is damaged: what it does not say is compacted once more");
    }
    free(text);
    return rc;
}

/* As load; *out is set unless there is no memory for it. */
static int read_positions(const rp_file_ops *ops, const char *directory, rp_compaction_positions **out, rp_error *error) {
    rp_compaction_positions *positions = *out = calloc(1, sizeof *positions);
    if (positions == NULL)
        return rp_error_set(error, RP_E_NO_MEMORY, ENOMEM, NULL, -1, "no memory for the positions of compacted queues");
    positions->ops = ops;
    int rc = rp_path_join(positions->path, directory, FILE_NAME, error);
    return rc == RP_OK ? load(positions, error) : rc;
}

int rp_compaction_positions_open(const rp_file_ops *ops, const char *directory, rp_log *log, rp_compaction_positions **out,
                                 rp_error *error) {
    rp_error local;
    rp_compaction_positions *positions;
    error = error == NULL ? &local : error;
    int rc = read_positions(ops, directory, &positions, error);
    if (rc == RP_E_CORRUPT)
        rp_log_write(log, RP_LOG_WARNING, "%s: %s", error->file, error->message);
    if (rc != RP_OK && rc != RP_E_CORRUPT) {
        rp_compaction_positions_close(positions);
        return rc;
    }
    *out = positions;
    return RP_OK;
}

int rp_compaction_positions_check(const rp_file_ops *ops, const char *directory, rp_compaction_positions **positions, rp_error *error) {
    return read_positions(ops, directory, positions, error);
}

void rp_compaction_positions_close(rp_compaction_positions *positions) {
    if (positions == NULL)
        return;
    for (uint32_t i = 0; i < positions->count; i++)
        free(positions->rows[i].name);
    free(positions->rows);
    free(positions);
}

int rp_compaction_positions_save(const rp_compaction_positions *positions, rp_error *error) {
    size_t room = 64 + (size_t)positions->count * (NAME_MAX_SIZE + 32), size = 0;
    char *text = malloc(room);
    if (text == NULL)
        return rp_error_set(error, RP_E_NO_MEMORY, ENOMEM, positions->path, -1, "no memory for the positions of compacted queues");
    size = (size_t)snprintf(text, room, "{" MEMBER ":{");
    for (uint32_t i = 0; i < positions->count; i++)
        size += (size_t)snprintf(text + size, room - size, "%s\"%s\":%" PRId64, i > 0 ? "," : "", positions->rows[i].name,
                                 positions->rows[i].offset);
    size += (size_t)snprintf(text + size, room - size, "}}");
    int rc = rp_file_write_whole(positions->ops, positions->path, text, size, "the positions of compacted queues", error);
    free(text);
    return rc;
}
