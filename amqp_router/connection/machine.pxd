cimport cython

from amqp_router.protocol cimport constants
from amqp_router.channel.publishing cimport Inflow
from amqp_router.connection.alarms cimport Alarms
from amqp_router.connection.dispatch cimport Dispatch
from amqp_router.connection.slices cimport Slices
from amqp_router.protocol.input cimport Input
from amqp_router.protocol.output cimport Output
from vhosts.publishing.publisher cimport Publisher

cdef long long _CHUNK_UNITS
cdef int _MORE
cdef int _PUBLISH
cdef int _TAKEN
cdef int _PUBLISHED
cdef int _CUT


cdef class Machine:
    cdef public object node
    cdef public str peer
    cdef public Alarms alarms
    cdef public object session
    cdef public object shared
    cdef public Input frames
    cdef public Slices work
    cdef public Dispatch dispatch
    cdef public Output output
    cdef public Inflow inflow
    cdef public set detached
    cdef public list open_runs
    cdef public dict channels
    cdef public object state
    cdef public bint running
    cdef public bint blocked
    cdef public bint work_left
    cdef public double close_delay_s
    cdef public object on_opened
    cpdef void receive_data(self, bytes data)
    cpdef void receive_more(self)
    @cython.locals(work=Slices, runs=list, publisher=Publisher)
    cdef void _run(self)
    @cython.locals(frames=Input, work=Slices, dispatch=Dispatch, found=int, taken=int)
    cdef bint _handle(self) except -1
    @cython.locals(waiting=Py_ssize_t, output=Output)
    cpdef Py_ssize_t waiting_bytes(self)
    @cython.locals(held=Py_ssize_t, output=Output)
    cpdef Py_ssize_t held_bytes(self)
