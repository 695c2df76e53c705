cimport cython

from amqp_router.protocol cimport constants
from amqp_router.channel.delivery cimport Delivery
from amqp_router.channel.publishing cimport Publishing
from amqp_router.connection.slices cimport Slices
from amqp_router.protocol.frames cimport ContentScan
from amqp_router.protocol.input cimport Input

cdef int _NOT_TAKEN
cdef int _TAKEN
cdef int _PUBLISHED
cdef int _CUT
cdef int _ACK
cdef int _COMPLETE
cdef int _MORE


cdef class Dispatch:
    cdef public dict channels
    cdef public object shared
    cdef public Input frames
    cdef public Slices work
    cdef public object admission  # asked once a channel; not compiled
    cdef public long long message_bytes_max
    cdef public long assembling
    cdef public long hot_number
    cdef public Publishing hot_publishing
    cdef public Delivery hot_delivery
    cdef public bint hot_transaction
    cdef public object event
    cdef public object held
    cdef public Py_ssize_t held_size
    cdef public list holding
    cdef public bint delivered
    cdef public object parking  # asked while a channel waits; not compiled
    cdef public dict parked
    cdef public bint stuck
    @cython.locals(frames=Input, start=Py_ssize_t, end=Py_ssize_t, d="const unsigned char*", data=bytes, scan=ContentScan, tag="unsigned long long", low="unsigned long long", args=bytes, content=bytes, count=Py_ssize_t, body_frames="unsigned int")
    cdef int take(self, int found) except -1
    cdef bint _heat(self, long number) except -1
    cpdef void let_go(self)
    cpdef void stop(self)
