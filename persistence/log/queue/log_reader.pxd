cimport cython

from amqp_router.protocol cimport flags
from amqp_router.protocol.message cimport Message
from persistence.log.format.messages cimport BatchView
from persistence.log.format.record cimport Batch
from persistence.log.format.returns cimport next_fresh
from persistence.log.format.settles cimport SettleState
from persistence.log.queue.partition cimport Cursor

cdef unsigned long long _U32_MAX


cdef class Tail:
    cdef list _batches

    cdef add(self, Batch batch)
    @cython.locals(batches=list, batch=Batch, low=Py_ssize_t, high=Py_ssize_t, middle=Py_ssize_t)
    cdef Batch find(self, unsigned long long offset)
    @cython.locals(batches=list, batch=Batch, done=Py_ssize_t)
    cdef written(self, unsigned long long end)
    cdef clear(self)
    cpdef list all(self)


cdef class ReadLog:
    pass


cdef class LogReader:
    cdef ReadLog _log
    cdef Tail _tail
    cdef Cursor _cursor
    cdef Cursor _random

    @cython.locals(cursor=Cursor, view=BatchView, size=cython.ulonglong, offset=cython.ulonglong, message=Message, found=Message,
                   messages=list)
    cdef read(self, SettleState state, unsigned long long redelivered_floor, unsigned long long from_offset,
              unsigned long long limit, long long max_messages, unsigned long long max_bytes, bint skips_returned)
    @cython.locals(offset=cython.ulonglong, returns=cython.uint)
    cdef _recall(self, Message message, SettleState state, unsigned long long redelivered_floor)
