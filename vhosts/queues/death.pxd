# Compiled types of death.py.

cimport cython

from amqp_router.protocol cimport flags
from amqp_router.protocol.message cimport Message

cdef unsigned long long _NO_EXPIRY


@cython.final
cdef class Death:
    cdef public str queue
    cdef public str reason
    cdef public bytes exchange
    cdef public bytes routing_key
    cdef public dict properties
    cdef bint _is_persistent
    cdef bytes _fields
    cdef bytes _expiration
    cdef bytes _route
    cdef bytes _received
    cdef long long _time_s
    cdef bint _keeps_keys
    cdef set _cycles
    cdef bytes _encoded
    cdef bytes _header
    cdef long long _size_of
    cdef int _channel_of
    cpdef bint is_of(self, Message message, str queue, str reason, long long time_s, bint keeps_keys) except -1
    cpdef bint has_properties_of(self, Message message) except -1
    @cython.locals(received=bytes, other=Death, found=tuple)
    cpdef Death again(self, Message message)
    cpdef bint has_further_keys(self) except -1
    @cython.locals(known_before=Py_ssize_t, is_first=bint)
    cpdef note(self, Message message, str queue, str reason, long long time_s, bint keeps_keys)
    cpdef set cycles(self)
    @cython.locals(name=bytes, rejected=bytes)
    cpdef bint comes_round(self, str queue) except -1
    cdef set _queues_without_rejection(self)
    @cython.locals(made=Message, header=bytes)
    cpdef Message message(self, Message original)
    cpdef bytes encoded(self)
    cdef _make_header(self, unsigned long long body_size, int channel)


cdef tuple _deaths(dict headers)
cdef tuple _deaths_like(dict headers, dict entry)
cdef list _tables(dict headers)
cdef tuple _split(bytes route)
