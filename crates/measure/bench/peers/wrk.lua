-- Some paths in turn, each request made once. There is no response(): with one, wrk would keep every body in memory.
local paths = { @PATHS@ }
local requests = {}
local last = 0

function init()
    for index, path in ipairs(paths) do
        requests[index] = wrk.format("GET", path)
    end
end

function request()
    last = last % #requests + 1
    return requests[last]
end

function done(summary)
    local errors = summary.errors
    io.write(string.format("failures connect %d read %d write %d status %d timeout %d\n",
        errors.connect, errors.read, errors.write, errors.status, errors.timeout))
    io.write(string.format("asked %d\n", summary.requests))
end
