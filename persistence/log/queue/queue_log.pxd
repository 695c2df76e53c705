cimport cython

from amqp_router.protocol.message cimport Message
from persistence.log.format.messages cimport MessagesBuilder
from persistence.log.queue.log_reader cimport LogReader, Tail
from persistence.log.format.record cimport Batch
from persistence.log.format.settles cimport SettleRuns, SettleState

cdef unsigned int _RETURN
cdef unsigned char _LOGGED
cdef unsigned long long _U32_MAX


cdef class QueueLog:
    cdef public str incarnation
    cdef public unsigned int number
    cdef public object partition
    cdef public object writer
    cdef public object listener
    cdef public unsigned long long start
    cdef public unsigned long long durable
    cdef public unsigned long long end
    cdef public unsigned long long high_watermark
    cdef public unsigned long generation
    cdef public unsigned long epoch
    cdef public list epochs
    cdef public unsigned long long redelivered_floor
    cdef public object failed
    cdef public bint passing
    cdef public bint dirty
    cdef public bint settles_dirty
    cdef public SettleState state
    cdef public bint checkpoint_due
    cdef public bint deleted
    cdef public unsigned long long checkpoint_offset
    cdef public unsigned long checkpoints_durable
    cdef public bint checkpoint_unsure
    cdef unsigned long _checkpoints
    cdef object _sync
    cdef object _caretaker
    cdef bytes _boot_id
    cdef unsigned long long _batch_bytes_max
    cdef MessagesBuilder _builder
    cdef unsigned long long _next_base
    cdef unsigned int _gap
    cdef long long _last_us
    cdef bint _epoch_pending
    cdef unsigned long _previous_epoch
    cdef SettleRuns _runs
    cdef Tail _tail
    cdef list _outbox
    cdef list _unremoved
    cdef bint _is_truncating
    cdef unsigned long long _held_written
    cdef LogReader _reader

    @cython.locals(builder=MessagesBuilder, size=cython.ulonglong, offset=cython.ulonglong)
    cpdef append(self, Message message, long long now_us)
    cdef _begin_batch(self, long long now_us)
    @cython.locals(builder=MessagesBuilder)
    cdef _append_large(self, Message message, unsigned long long offset, long long now_us)
    @cython.locals(offset=cython.ulonglong)
    cpdef reserve(self, Message message)
    cdef unsigned long long _take_offset(self) except? 0
    cdef _place(self, Batch batch)
    cdef _close_messages(self)
    @cython.locals(returns=cython.uint, settled=cython.uint)
    cpdef settle(self, unsigned long long offset, unsigned int gap, unsigned int kind)
    @cython.locals(limit=cython.ulonglong)
    cpdef read(self, unsigned long long from_offset, unsigned long long limit_offset, long long max_messages,
               unsigned long long max_bytes)
