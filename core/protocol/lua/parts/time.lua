-- Prepended to the scripts that store a deadline for each hold.

-- Converts a reply of TIME into milliseconds. Takes the reply, so that a script calls TIME only once.
local function milliseconds(time)
  return time[1] * 1000 + math.floor(time[2] / 1000)
end
