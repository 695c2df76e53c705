cimport cython

from amqp_router.protocol cimport flags
from amqp_router.protocol.message cimport Message
from persistence.log.format.messages cimport MessagesBuilder
from persistence.log.format.record cimport Batch
from persistence.log.format.settles cimport SettleRuns, SettleState
from persistence.log.queue.log_reader cimport Tail
from persistence.log.queue.partition cimport Partition
from persistence.log.sync.checkpoints cimport Checkpoints

cdef unsigned long long _U32_MAX
cdef unsigned long long _RESERVED_MAX


@cython.final
cdef class Batches:
    cdef public Partition partition
    cdef Checkpoints _checkpoints
    cdef public Tail tail
    cdef public SettleState state
    cdef public unsigned long long end
    cdef public unsigned long long next_base
    cdef public long long last_us
    cdef public unsigned long epoch
    cdef public unsigned long generation
    cdef public list epochs
    cdef public dict sources
    cdef public dict producers
    cdef bytes _boot_id
    cdef unsigned long long _batch_bytes_max
    cdef bint _epoch_pending
    cdef unsigned long _previous_epoch
    cdef unsigned int _gap
    cdef MessagesBuilder _builder
    cdef SettleRuns _runs
    cdef list _outbox

    @cython.locals(builder=MessagesBuilder, size=cython.ulonglong, offset=cython.ulonglong)
    cdef int append(self, Message message, long long now_us) except -1
    cdef _note_extras(self, Message message, long long now_us)
    cdef _begin_batch(self, long long now_us)
    @cython.locals(builder=MessagesBuilder)
    cdef _append_large(self, Message message, unsigned long long offset, long long now_us)
    @cython.locals(offset=cython.ulonglong)
    cdef bint reserve(self, Message message) except -1
    cdef unsigned long long _take_offset(self) except? 0
    cdef _place(self, Batch batch)
    cdef _close_messages(self)
    cpdef close_all(self)
    cpdef bint close(self, unsigned long long offset) except -1
    cpdef list take(self)
    @cython.locals(returns=cython.uint, settled=cython.uint)
    cdef bint settle(self, unsigned long long offset, unsigned int gap, unsigned int kind) except -1
