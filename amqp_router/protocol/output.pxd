cimport cython

from amqp_router.protocol cimport constants
from amqp_router.protocol._buf cimport Buf
from amqp_router.protocol.message cimport Message
from amqp_router.protocol.tick cimport Tick

cdef Py_ssize_t _FULL_BYTES


cdef class LargeContent:
    cdef public object frames
    cdef public bytes current
    cdef public unsigned int channel
    cdef public Py_ssize_t body_payload_max
    cdef public Py_ssize_t index
    cdef public Py_ssize_t position
    cdef public Py_ssize_t in_memory
    cdef public Py_ssize_t asked
    cpdef bytes next_piece(self)
    cdef void _advance(self)


cdef class Output:
    cdef public Buf buf
    cdef public object pieces
    cdef public Py_ssize_t piece_bytes
    cdef public Py_ssize_t large_bytes
    cdef public Py_ssize_t asked_bytes
    cdef public bint dirty
    cdef public bint full
    cdef public Tick tick
    cdef public object owner
    cpdef void touch(self)
    @cython.locals(large=LargeContent)
    cpdef void answer(self, Message message, unsigned int channel, Py_ssize_t body_payload_max)
    @cython.locals(done=Py_ssize_t)
    cdef void _uncount(self, LargeContent large, Py_ssize_t size)
    @cython.locals(large=LargeContent, content=object, buf=Buf, start=Py_ssize_t, position=Py_ssize_t, end=Py_ssize_t)
    cpdef void content(self, Message message, unsigned int channel, Py_ssize_t body_payload_max)
    cpdef void join(self, Output other)
    cpdef bytes next_piece(self)
    cpdef Py_ssize_t waiting_bytes(self)
    cpdef Py_ssize_t held_bytes(self)
