cimport cython

from amqp_router.channel.delivery cimport Delivery
from amqp_router.channel.publishing cimport Inflow, Publishing
from amqp_router.connection.alarms cimport Alarms
from amqp_router.protocol.frames cimport ContentScan
from amqp_router.protocol.output cimport Output
from amqp_router.protocol.tick cimport Tick

cdef long long _CHUNK_UNITS
cdef Py_ssize_t _HELD_CONTENT


cdef class Machine:
    cdef public object node
    cdef public str peer
    cdef public str peer_host
    cdef public Tick tick
    cdef public Alarms alarms
    cdef public object commits
    cdef public Output output
    cdef public object state
    cdef public bint running
    cdef public bint stopped
    cdef public bint blocked
    cdef public double close_delay_s
    cdef public object user
    cdef public object client_properties
    cdef public str mechanism
    cdef public set capabilities
    cdef public bint consumer_cancel_notify
    cdef public object held_cancels
    cdef public object vhost
    cdef public object permissions
    cdef public object cache
    cdef public long long frame_max
    cdef public long channel_max
    cdef public long heartbeat_s
    cdef public long long message_bytes_max
    cdef public dict channels
    cdef public Inflow inflow
    cdef public object unstored_changes
    cdef public object intake
    cdef public set detached
    cdef public list open_runs
    cdef public object on_opened
    cdef public ContentScan scan
    cdef public bytes data
    cdef public Py_ssize_t position
    cdef public list parts
    cdef public Py_ssize_t parts_size
    cdef public Py_ssize_t need
    cdef public list late
    cdef public bint work_left
    cdef public bint again
    cdef public bint delivered
    cdef public object steps
    cdef public bint waiting
    cdef public bint handed
    cdef public bint scanning
    cdef public long long units
    cdef public long assembling
    cdef public long hot_number
    cdef public Publishing hot_publishing
    cdef public Delivery hot_delivery
    cdef public Py_ssize_t octets
    cdef public long number
    cdef public long class_id
    cdef public long method_id
    @cython.locals(position=Py_ssize_t, missing=Py_ssize_t)
    cpdef void receive_data(self, bytes data)
    cpdef void receive_more(self)
    @cython.locals(waiting=Py_ssize_t, output=Output)
    cpdef Py_ssize_t waiting_bytes(self)
    @cython.locals(held=Py_ssize_t, output=Output)
    cpdef Py_ssize_t held_bytes(self)
    cdef void _run(self)
    @cython.locals(data=bytes, d="const unsigned char*", end_of_data=Py_ssize_t, position=Py_ssize_t, scan=ContentScan, kind=int, number=long, size="long long", start=Py_ssize_t, end=Py_ssize_t, method=int, found=int, count=Py_ssize_t, tag="unsigned long long", low="unsigned long long")
    cdef bint _scan(self) except -1
    cdef bint _heat(self, long number) except -1
