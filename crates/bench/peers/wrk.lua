-- The library's files in turn. There is no response(): with one, wrk would keep every body in memory.
local files = { @FILES@ }
local requests = {}
local last = 0

function init()
    for index, file in ipairs(files) do
        requests[index] = wrk.format("GET", file)
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
end
