/* answer_status.c: see answer_status.h. */
#include "answer_status.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "../base/utf8_inl.h"
#include "protobuf.h"

enum status_field { STATUS_CODE = 1, STATUS_MESSAGE = 2 };

typedef struct code_name {
    int32_t code;
    const char *name;
} code_name;

static const code_name names[RP_ANSWER_CODES] = {
    {RP_CODE_INTERNAL_SERVER_ERROR, "INTERNAL_SERVER_ERROR"}, /* first: it stands for every unknown code */
    {RP_CODE_OK, "OK"},
    {RP_CODE_MULTIPLE_RESULTS, "MULTIPLE_RESULTS"},
    {RP_CODE_TOPIC_NOT_FOUND, "TOPIC_NOT_FOUND"},
    {RP_CODE_CONSUMER_GROUP_NOT_FOUND, "CONSUMER_GROUP_NOT_FOUND"},
    {RP_CODE_TOO_MANY_REQUESTS, "TOO_MANY_REQUESTS"},
    {RP_CODE_LITE_TOPIC_QUOTA_EXCEEDED, "LITE_TOPIC_QUOTA_EXCEEDED"},
    {RP_CODE_LITE_SUBSCRIPTION_QUOTA_EXCEEDED, "LITE_SUBSCRIPTION_QUOTA_EXCEEDED"},
    {RP_CODE_HA_NOT_AVAILABLE, "HA_NOT_AVAILABLE"},
    {RP_CODE_NOT_IMPLEMENTED, "NOT_IMPLEMENTED"},
    {RP_CODE_PROXY_TIMEOUT, "PROXY_TIMEOUT"},
    {RP_CODE_MASTER_PERSISTENCE_TIMEOUT, "MASTER_PERSISTENCE_TIMEOUT"},
    {RP_CODE_SLAVE_PERSISTENCE_TIMEOUT, "SLAVE_PERSISTENCE_TIMEOUT"},
    {RP_CODE_MESSAGE_NOT_FOUND, "MESSAGE_NOT_FOUND"},
};

typedef struct broker_code {
    int32_t code;
    const char *name; /* the text if the broker gives no remark */
    int32_t answer;
} broker_code;

static const broker_code broker_codes[] = {
    {1, "SYSTEM_ERROR", RP_CODE_INTERNAL_SERVER_ERROR},
    {2, "SYSTEM_BUSY", RP_CODE_TOO_MANY_REQUESTS},
    {3, "REQUEST_CODE_NOT_SUPPORTED", RP_CODE_NOT_IMPLEMENTED},
    {13, "MESSAGE_ILLEGAL", RP_CODE_INTERNAL_SERVER_ERROR},
    {14, "SERVICE_NOT_AVAILABLE", RP_CODE_INTERNAL_SERVER_ERROR},
    {15, "VERSION_NOT_SUPPORTED", RP_CODE_INTERNAL_SERVER_ERROR},
    {16, "NO_PERMISSION", RP_CODE_INTERNAL_SERVER_ERROR},
    {17, "TOPIC_NOT_EXIST", RP_CODE_TOPIC_NOT_FOUND},
    {26, "SUBSCRIPTION_GROUP_NOT_EXIST", RP_CODE_CONSUMER_GROUP_NOT_FOUND},
    {2017, "LMQ_QUOTA_EXCEEDED", RP_CODE_LITE_TOPIC_QUOTA_EXCEEDED},
    {2018, "LITE_SUBSCRIPTION_QUOTA_EXCEEDED", RP_CODE_LITE_SUBSCRIPTION_QUOTA_EXCEEDED},
};

_Static_assert(RP_ANSWER_CODES == 14, "names has a row for each code");

uint32_t rp_answer_code_place(int32_t code) {
    uint32_t place = 1;
    while (place < RP_ANSWER_CODES && names[place].code != code)
        place++;
    return place < RP_ANSWER_CODES ? place : 0;
}

int32_t rp_answer_code_at(uint32_t place) { return names[place].code; }

const char *rp_answer_code_name(int32_t code) { return names[rp_answer_code_place(code)].name; }

/* Returns NULL if the table has no row for the code. */
static const broker_code *find_broker_code(int32_t code) {
    for (size_t i = 0; i < sizeof broker_codes / sizeof *broker_codes; i++) {
        if (broker_codes[i].code == code)
            return &broker_codes[i];
    }
    return NULL;
}

/* Replaces each byte that begins no character by a question mark; if the text is cut, an incomplete last character is dropped. */
static void mend(rp_answer_status *status, bool is_cut) {
    for (uint32_t at = 0; at < status->size;) {
        int is_whole;
        uint32_t size = rp_utf8_next(status->text + at, status->size - at, &is_whole);
        if (!is_whole && is_cut && at + size == status->size) {
            status->size = at;
            return;
        }
        if (!is_whole)
            memset(status->text + at, '?', size);
        at += size;
    }
}

void rp_answer_status_set(rp_answer_status *status, int32_t code, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int size = vsnprintf((char *)status->text, sizeof status->text, format, arguments);
    va_end(arguments);
    bool is_cut = size >= (int)sizeof status->text;
    status->code = code;
    status->size = size < 0 ? 0 : is_cut ? sizeof status->text - 1 : (uint32_t)size;
    mend(status, is_cut);
}

void rp_answer_status_name(rp_answer_status *status, int32_t code) {
    const char *name = rp_answer_code_name(code);
    status->code = code;
    status->size = (uint32_t)strlen(name);
    memcpy(status->text, name, status->size);
}

void rp_answer_status_of(rp_answer_status *status, const rp_command *answer) {
    const broker_code *known = find_broker_code(answer->code);
    int32_t code = known != NULL ? known->answer : RP_CODE_INTERNAL_SERVER_ERROR;
    char number[16];
    snprintf(number, sizeof number, "%d", answer->code);
    if (answer->remark.size > 0)
        rp_answer_status_set(status, code, "CODE: %d  DESC: %.*s", answer->code, (int)answer->remark.size,
                             (const char *)answer->remark.data);
    else
        rp_answer_status_set(status, code, "CODE: %d  DESC: %s", answer->code, known != NULL ? known->name : number);
}

uint32_t rp_answer_status_size(const rp_answer_status *status) {
    return rp_protobuf_number_size(STATUS_CODE, status->code) + rp_protobuf_bytes_size(STATUS_MESSAGE, status->size);
}

uint8_t *rp_answer_status_write(const rp_answer_status *status, uint8_t *target) {
    target = rp_protobuf_put_number(target, STATUS_CODE, status->code);
    return rp_protobuf_put_bytes(target, STATUS_MESSAGE, (rp_slice){status->text, status->size});
}
