-- Put before the scripts that keep a deadline for each hold.

-- The server's clock in milliseconds. To be read once per script.
local function milliseconds(time)
  return time[1] * 1000 + math.floor(time[2] / 1000)
end
