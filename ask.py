import socket, sys, urllib.parse
uri, command = sys.argv[1:]
place = urllib.parse.urlsplit(uri)
host, port = place.hostname, place.port
while True:
    with socket.create_connection((host, int(port))) as link:
        link.sendall(f"AUTH {place.username} {place.password}\r\n{command}\r\n".encode())
        answers = link.makefile("r")
        login, answer = answers.readline().strip(), answers.readline().strip()
        value = answers.readline().strip() if answer.startswith("$") else answer
    if not answer.startswith("-MOVED"):
        break
    host, _, port = answer.split()[2].rpartition(":")
print(value)
