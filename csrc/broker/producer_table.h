/* producer_table.h: which connection a producer with some client id is on, so that replies find it. Private to csrc/broker.
 * RocketMQ: ProducerManager.clientChannelTable (5.3.3 broker/client/).
 *
 * Client ids come and go with processes, so rows are freed when they are deleted (a name_table keeps its names for good), and a reader
 * takes the lock: replies are round trips between processes, a mutex is nothing to them.
 *
 * Threads  any; one mutex, a leaf.
 * Bounds   RP_PRODUCERS_MAX rows, RP_CLIENT_ID_MAX bytes each.
 */
#ifndef RP_BROKER_PRODUCER_TABLE_H
#define RP_BROKER_PRODUCER_TABLE_H

#include <stdint.h>

#include "../base/slice.h"

typedef struct rp_producer_table rp_producer_table;

/* Where a producer is. */
typedef struct rp_producer_place {
    uint64_t connection_id;
    uint16_t lane; /* index of its reactor's lane */
} rp_producer_place;

rp_producer_table *rp_producer_table_create(void); /* NULL: memory is out */
void rp_producer_table_destroy(rp_producer_table *table);

/* RP_OK, RP_E_BUSY at the bound, RP_E_NO_MEMORY. */
int rp_producer_table_put(rp_producer_table *table, rp_slice client_id, rp_producer_place place);
void rp_producer_table_delete(rp_producer_table *table, rp_slice client_id);
/* 1 and *place, or 0: nobody has this id. */
int rp_producer_table_find(rp_producer_table *table, rp_slice client_id, rp_producer_place *place);

#endif
