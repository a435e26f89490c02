/* rocketpy.h: the public headers of every room, in the order of the layers.
 * Conventions of all of them: csrc/base/error.h (status codes), docs/locks.md (threads and locks). */
#ifndef RP_ROCKETPY_H
#define RP_ROCKETPY_H

#include "base/arena.h"
#include "base/clock.h"
#include "base/crc32.h"
#include "base/error.h"
#include "base/fault_report.h"
#include "base/file_ops.h"
#include "base/hash.h"
#include "base/histogram.h"
#include "base/log.h"
#include "base/ring.h"
#include "base/sha1.h"
#include "base/slice.h"

#include "remoting/command.h"
#include "remoting/proxy_header.h"
#include "remoting/server.h"

#include "grpc/grpc.h"

#include "auth/auth_table.h"
#include "auth/signer.h"

#include "proxy/held_handles.h"
#include "proxy/proxy.h"

#include "store/commit_log.h"
#include "store/consume_queue.h"
#include "store/flush_backend.h"
#include "store/message.h"
#include "store/index_file.h"
#include "store/key_index.h"
#include "store/log_scan.h"
#include "store/message_store.h"
#include "store/store_verify.h"

#include "broker/broker.h"
#include "broker/escaping_messages.h"
#include "broker/broker_stats.h"
#include "broker/lite.h"
#include "broker/pop.h"
#include "broker/timed_messages.h"
#include "broker/transactions.h"

#include "ha/dledger_log.h"
#include "ha/epoch_cache.h"
#include "ha/ha_master.h"
#include "ha/ha_slave.h"
#include "ha/ha_switch.h"

#include "arrow/buffer_pool.h"
#include "arrow/message_packer.h"
#include "arrow/queue_reader.h"
#include "arrow/record_batch.h"
#include "arrow/segment_reader.h"

#include "load/floor.h"
#include "load/load.h"

#endif
