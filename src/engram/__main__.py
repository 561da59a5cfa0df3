from engram.cli.start import main

main()
